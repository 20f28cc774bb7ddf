"""Small models of `transformers`, their config.json as saved and every parameter: the table that
types of config.json are compared with. Nothing is trained; no weights are made (meta device)."""
import json, sys, torch, transformers
from transformers import AutoConfig, AutoModelForCausalLM
H=dict(hidden_size=64,num_hidden_layers=2,num_attention_heads=4,vocab_size=96,intermediate_size=160)
K=dict(H,num_key_value_heads=2)
MOE=dict(K,moe_intermediate_size=48,n_routed_experts=6,num_experts_per_tok=2,n_shared_experts=1,first_k_dense_replace=1,head_dim=16)
C=[
 ('gpt_neox',H),('falcon',dict(hidden_size=64,num_hidden_layers=2,num_attention_heads=4,vocab_size=96)),
 ('falcon40b',dict(_t='falcon',hidden_size=64,num_hidden_layers=2,num_attention_heads=4,num_kv_heads=2,new_decoder_architecture=True,vocab_size=96)),
 ('falcon11b',dict(_t='falcon',hidden_size=64,num_hidden_layers=2,num_attention_heads=4,num_kv_heads=2,new_decoder_architecture=True,num_ln_in_parallel_attn=1,ffn_hidden_size=200,vocab_size=96)),
 ('phi',H),('gptj',dict(n_embd=64,n_layer=2,n_head=4,vocab_size=96,rotary_dim=8)),
 ('cohere',K),('cohere_plus',dict(_t='cohere',use_qk_norm=True,**K)),('cohere2',dict(K,head_dim=16)),
 ('starcoder2',K),('stablelm',K),('stablelm_bias',dict(_t='stablelm',use_qkv_bias=True,**K)),
 ('olmo2',K),('olmo3',K),('exaone4',K),('olmoe',dict(K,num_experts=6,num_experts_per_tok=2)),
 ('minimax_m2',dict(K,head_dim=16,num_local_experts=6,num_experts_per_tok=2)),
 ('glm4_moe',MOE),('glm4_moe_normed',dict(_t='glm4_moe',use_qk_norm=True,attention_bias=True,**MOE)),
 ('solar_open',{k:v for k,v in MOE.items() if k!='first_k_dense_replace'}),
 ('glm4_moe_lite',dict(H,num_key_value_heads=4,moe_intermediate_size=48,n_routed_experts=6,num_experts_per_tok=2,n_shared_experts=1,q_lora_rank=24,kv_lora_rank=16,qk_rope_head_dim=8,v_head_dim=16,qk_nope_head_dim=8)),
 ('arcee',dict(K,attention_bias=True)),('nemotron',dict(K,head_dim=16)),
 ('phimoe',dict(K,num_local_experts=6,num_experts_per_tok=2,attention_bias=True,lm_head_bias=True)),
 ('phimoe_plain',dict(_t='phimoe',num_local_experts=6,num_experts_per_tok=2,**K)),
 ('granitemoe',dict(K,num_local_experts=6,num_experts_per_tok=2)),
 ('llama4_text',dict(K,num_hidden_layers=4,head_dim=16,intermediate_size_mlp=200,num_local_experts=6)),
 ('mpt',dict(d_model=64,n_layers=2,n_heads=4,vocab_size=96)),
 ('dbrx',dict(d_model=64,n_layers=2,n_heads=4,vocab_size=96,attn_config=dict(kv_n_heads=2,rope_theta=5e5),ffn_config=dict(ffn_hidden_size=48,moe_num_experts=6,moe_top_k=2))),
 ('seed_oss',dict(K,head_dim=16)),('ernie4_5',dict(K,head_dim=16)),('ministral3',dict(K,head_dim=16)),
]
out=sys.argv[1]
configs={}; rows=['model,name,shape']
for n,kw in C:
    kw=dict(kw); t=kw.pop('_t',n)
    cfg=AutoConfig.for_model(t,**kw)
    with torch.device('meta'): m=AutoModelForCausalLM.from_config(cfg)
    keep={k:v for k,v in cfg.to_dict().items() if k not in ('transformers_version','architectures','_name_or_path') and v is not None}
    configs[n]=keep
    for k,p in m.named_parameters(): rows.append(f"{n},{k},{'x'.join(map(str,p.shape))}")
lines=['{']+[f' {json.dumps(n)}: {json.dumps(c)}'+(',' if i+1<len(configs) else '') for i,(n,c) in enumerate(configs.items())]+['}']
open(out+'/configs.json','w').write('\n'.join(lines)+'\n')
open(out+'/params.csv','w').write('\n'.join(rows)+'\n')
print(transformers.__version__,len(rows))
