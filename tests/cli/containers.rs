//! Commands of servers as they are started in containers: Compose, Kubernetes, a Dockerfile.

use crate::common::{Project, Ran};

/// github.com/sgl-project/sglang, docker/compose.yaml.
const SGLANG: &str = r#"services:
  sglang:
    image: lmsysorg/sglang:latest
    environment:
      HF_TOKEN: <secret>
    entrypoint: python3 -m sglang.launch_server
    command:
      --model-path meta-llama/Meta-Llama-3.1-8B-Instruct
      --host 0.0.0.0
      --port 30000
    ulimits:
      memlock: -1
    deploy:
      resources:
        reservations:
          devices:
            - driver: nvidia
              device_ids: ['0']
              capabilities: [gpu]
"#;

/// github.com/brianlechthaler/opencode-3090ti, docker-compose.vllm.yml.
const COMPOSE: &str = r#"services:
  vllm:
    image: vllm/vllm-openai:latest
    environment:
      HF_TOKEN: ${HF_TOKEN:-}
    ports:
      - "8000:8000"
    command:
      - --model
      - Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8
      - --gpu-memory-utilization
      - "0.95"
      - --max-model-len
      - "8192"
      - --kv-cache-dtype
      - ${KV_DTYPE:-fp8_e4m3}
      - --max-num-seqs
      - "1"
      - --enforce-eager
volumes:
  huggingface_cache:
"#;

/// github.com/kubernetes/examples, AI/vllm-deployment/vllm-deployment.yaml.
const DEPLOYMENT: &str = r#"apiVersion: v1
kind: Service
metadata:
  name: llm-service
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm-gemma-deployment
spec:
  template:
    spec:
      containers:
      - name: inference-server
        image: vllm/vllm-openai@sha256:05a31dc4185b042e91f4d2183689ac8a87bd845713d5c3f987563c5899878271
        resources:
          limits:
            nvidia.com/gpu: "1"
        command: ["python3", "-m", "vllm.entrypoints.openai.api_server"]
        args:
        - --model=$(MODEL_ID)
        - --tensor-parallel-size=1
        - --host=0.0.0.0
        env:
        - name: MODEL_ID
          value: google/gemma-3-1b-it
        - name: HUGGING_FACE_HUB_TOKEN
          valueFrom:
            secretKeyRef:
              name: hf-secret
              key: hf_token
"#;

/// A script in the place of arguments, as github.com/kubernetes-sigs/lws has it, of one pod.
const SCRIPT: &str = r#"apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  leaderWorkerTemplate:
    leaderTemplate:
      spec:
        containers:
          - name: vllm-leader
            image: vllm/vllm-openai:latest
            command:
              - sh
              - -c
              - "bash /vllm-workspace/examples/multi-node-serving.sh leader;
                 vllm serve meta-llama/Llama-3.1-8B-Instruct --port 8080 --tensor-parallel-size 2 --kv-cache-dtype fp8"
"#;

const DOCKERFILE: &str = r#"# syntax=docker/dockerfile:1
FROM vllm/vllm-openai:v0.6.3
ENV MODEL=meta-llama/Llama-3.1-8B-Instruct
EXPOSE 8000
ENTRYPOINT ["python3", "-m", "vllm.entrypoints.openai.api_server"]
CMD ["--model", "$MODEL", "--tensor-parallel-size", "2", \
     "--gpu-memory-utilization", "0.95"]
"#;

fn turned(project: &Project, engine: &str, name: &str, text: &str, device: &str) -> Ran {
    project.write(name, text);
    project.run(&["from", engine, name, "--device", device, "--no-run"])
}

#[test]
fn commands_that_containers_start_are_read() {
    let project = Project::shipped();
    turned(&project, "sglang", "compose.yaml", SGLANG, "h100")
        .ends_with(0)
        .shows(&["model: \"llama-3.1-8b\"", "line 8: port: 30000 -> ignored"]);
    // Every word has its own line.
    turned(&project, "vllm", "docker-compose.yml", COMPOSE, "3090").ends_with(0).shows(&[
        "model: \"qwen3-30b-a3b\"",
        "formats: (weights: fp8, kv: fp8)",
        "line 11: gpu-memory-utilization: 0.95 -> ",
        "line 17: max-num-seqs: 1 -> ",
    ]);
    turned(&project, "vllm", "deployment.yaml", DEPLOYMENT, "l40s")
        .ends_with(0)
        .shows(&["model: \"gemma-3-1b\""]);
    turned(&project, "vllm", "lws.yaml", SCRIPT, "h100").ends_with(0).shows(&[
        "model: \"llama-3.1-8b\"",
        "tensor: 2",
        "formats: (kv: fp8)",
    ]);
    turned(&project, "vllm", "Dockerfile", DOCKERFILE, "h100").ends_with(0).shows(&[
        "model: \"llama-3.1-8b\"",
        "tensor: 2",
        "line 6: gpu-memory-utilization: 0.95 -> ",
    ]);
}

#[test]
fn what_starts_no_such_program_or_several_is_refused() {
    let project = Project::shipped();
    let refused = |name: &str, text: &str, says: &str| {
        turned(&project, "vllm", name, text, "h100").ends_with(2).says(&[says]);
    };
    refused("other.yml", SGLANG, "no command with such flags is in it");
    let (_, service) = COMPOSE.split_once("services:\n").expect("it has services");
    let other = service.replace("vllm:\n", "other:\n").replace("\"8192\"", "\"4096\"");
    let other = other.split_once("volumes:").expect("it has volumes").0;
    refused("two.yml", &format!("services:\n{other}{service}"), "a script starts one program");
    refused("broken.yml", "services:\n  vllm: [\n", "this is no YAML");
    let deep = format!("services:\n  vllm: {}1{}\n", "[".repeat(100), "]".repeat(100));
    refused("deep.yml", &deep, "at most 64 deep");
    // A script that writes a manifest is a script.
    let script = format!("#!/bin/sh\ncat > m.yaml <<EOF\n{DEPLOYMENT}EOF\nvllm serve gpt2\n");
    turned(&project, "vllm", "apply.sh", &script, "h100").ends_with(0).shows(&["model: \"gpt2\""]);
    // A file of settings that are not this program's.
    project.write("settings.yaml", "zero_stage: 3\nmixed_precision: bf16\n");
    let more = ["--model", "gpt2", "--device", "t4", "--no-run"];
    project
        .run(&[&["from", "vllm", "settings.yaml"], &more[..]].concat())
        .ends_with(2)
        .says(&["no key of this file is one of vllm's flags"]);
}
