"""The package's functions against the command itself, in a folder that is no checkout."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import warnings
from pathlib import Path

import tiersim
from tiersim import ron
from tiersim._child import command

#: Scenarios that take seconds at most; every kind of workload is among them.
TWENTY = [
    "activation-offload",
    "compressed-kv",
    "compressed-tiers",
    "gpt2-adam-tiering",
    "gpt2-hints-inference",
    "gpt2-look-ahead",
    "gpt2-lru-budgets",
    "gpt2-out-of-memory",
    "gpt2-rescored",
    "gpt2-shared-pcie",
    "guide-a100",
    "guide-rtx-4090",
    "kv-tiering-requests",
    "llama-2-13b-24gb-serving",
    "llama-2-7b-zero-stages",
    "llama-3-8b-kv-tiers",
    "opt-30b-t4",
    "seed-two-spellings",
    "static-placements",
    "tiny-llama-lru",
]
SMALL = "tiny-llama-lru"
NO_SUCH_HOPE = 'expect=[slowdown(case: "all in HBM", at_least: 2)]'


class Elsewhere(unittest.TestCase):
    """A test in an empty folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        self.folder = Path(folder.name)


def labelled(labels):
    """A scenario of cases that differ in their labels alone."""
    case = {"policy": ron.Lru(spill=["dram"]), "hbm": ron.share_of_peak(0.75)}
    return tiersim.Scenario(
        "labels",
        about="labels that look like something else",
        hardware="h100-sxm-pcie5",
        workload=ron.Trace(
            path="traces/tiny-llama-cpu", time=ron.roofline(precision="tf32"), repeat=3, warmup=1
        ),
        policies=[ron.struct(name=label, **case) for label in labels],
    )


class SameNumbers(Elsewhere):
    def plain(self, *arguments):
        return subprocess.run([command(), *arguments], capture_output=True, check=True).stdout

    def test_twenty_scenarios_have_the_numbers_of_the_command_to_the_last_digit(self):
        self.assertEqual(len(set(TWENTY)), 20)
        for name in TWENTY:
            with self.subTest(name):
                out = ["--no-png", "--format", "json", "--out", "plain"]
                printed = self.plain("run", name, *out).decode()
                result = tiersim.run(name, progress=False)
                self.assertEqual(result.summary, json.loads(printed))
                # Texts, so that every digit counts.
                for file in ["summary.json", "results.csv"]:
                    plain = Path("plain", file).read_bytes()
                    self.assertEqual((result.folder / file).read_bytes(), plain)
                for chart, shown in result.charts.items():
                    self.assertEqual(shown.svg, Path(f"plain/{chart}.svg").read_text("utf-8"))
                self.assertEqual(result.failed, [])

    def test_data_frames_have_every_digit(self):
        result = tiersim.run(SMALL)
        steps = [case["step_ms"]["mean"] for case in result]
        self.assertEqual(list(result.to_pandas()["step_ms_mean"]), steps)
        self.assertEqual(list(result.to_polars()["step_ms_mean"]), steps)
        self.assertEqual([row["step_ms_mean"] for row in result.to_dicts()], steps)

    def test_a_sweep_a_solution_an_explanation_and_an_account_are_the_commands(self):
        out = ["--format", "json", "--out", "plain"]
        solved = tiersim.solve(
            SMALL, minimize="links.pcie.read", case="LRU 75 %", such_that="slowdown <= 3"
        )
        asked = ["--minimize", "links.pcie.read", "--case", "LRU 75 %"]
        asked += ["--such-that", "slowdown <= 3"]
        answers = [
            (solved, ["solve", SMALL, *asked, *out]),
            (tiersim.explain(SMALL, change=0), ["explain", SMALL, "--change", "0", *out]),
            (
                tiersim.memory(params="7.5B", gpus=64, stage=3),
                ["memory", "--params", "7.5B", "--gpus", "64", "--stage", "3", "--format", "json"],
            ),
        ]
        for answer, plain in answers:
            self.assertEqual(answer.summary, json.loads(self.plain(*plain)))
        self.assertEqual(solved.value, solved.summary["answer"]["value"])
        self.assertGreater(len(answers[1][0].to_pandas()), 10)
        self.assertEqual(answers[2][0].gpu_bytes, 1_875_000_000)
        self.assertEqual(sum(row["bytes"] for row in answers[2][0]), 1_875_000_000)

    def test_labels_are_texts_in_every_table(self):
        labels = ["1_000", "true", "1e3", "050", "-LRU", "=1+1", "nan", "Infinity", "null"]
        for some in [labels, labels[:4], ["050", "100"]]:
            result = tiersim.run(labelled(some), progress=False)
            self.assertEqual([case["label"] for case in result], some)
            self.assertEqual([row["label"] for row in result.to_dicts()], some)
            self.assertEqual(list(result.to_pandas()["label"]), some)
            self.assertEqual(list(result.to_polars()["label"]), some)
        self.assertEqual(result.to_pandas()["step_ms_mean"].dtype, "float64")

    def test_the_least_change_is_the_answer(self):
        asked = {"such_that": "slowdown <= 1.5", "case": "LRU 50 %"}
        least = tiersim.solve(SMALL, fit=True, progress=False, **asked)
        enough = [change for change in least.summary["changes"] if change["least"] is not None]
        self.assertEqual(least.answer, enough[0])
        self.assertEqual(least.value, enough[0]["least"])
        self.assertIn(f"fits with {enough[0]['path']} = {enough[0]['least']}", repr(least))
        fits = tiersim.solve(SMALL, fit=True, progress=False)
        self.assertEqual(fits.answer, {"case": fits.summary["fits_now"]})
        self.assertIn("fits as it is", repr(fits))
        none = tiersim.solve(SMALL, fit=True, such_that="slowdown <= 0.5", progress=False)
        self.assertEqual((none.answer, none.value), (None, None))
        self.assertEqual(repr(none), f"{SMALL}: no change that was tried is enough")

    def test_one_path_that_may_vary_is_one_text(self):
        asked = {"minimize": "cost_usd", "such_that": "slowdown <= 3", "resolution": 0.2}
        one = tiersim.solve(SMALL, vary="links.pcie.read=20..60", progress=False, **asked)
        several = tiersim.solve(SMALL, vary=["links.pcie.read=20..60"], progress=False, **asked)
        self.assertEqual(one.summary, several.summary)

    def test_of_several_machines_the_best_case_says_its_own(self):
        scenario = labelled(["one"]).with_(hardware=["a100-40g-pcie4", "h100-sxm-pcie5"])
        result = tiersim.run(scenario, progress=False)
        best = next(case for case in result if case["rank"] == 1)
        self.assertEqual(best["hardware"], "h100-sxm-pcie5")
        first = "labels on 2 machines, the best h100-sxm-pcie5: 2 results"
        self.assertEqual(repr(result).splitlines()[0], first)

    def test_points_of_a_sweep_are_rows(self):
        path = "policies.LRU 75 %.hbm"
        budgets = {"60 %": ron.share_of_peak(0.6), "70 %": ron.share_of_peak(0.7)}
        choices = [ron.pair(name, ron.text(budget)) for name, budget in budgets.items()]
        axis = ron.struct(name="HBM", path=path, values=ron.choices(choices))
        swept = tiersim.sweep(SMALL, set={"sweep": ron.struct(axes=[axis])})
        alone = tiersim.run(SMALL, set={path: budgets["60 %"]})["LRU 75 %"]
        steps = [
            case["step_ms"]
            for case in swept
            if "60 %" in case["params"].values() and "LRU 75 %" in case["label"]
        ]
        self.assertEqual(steps, [alone["step_ms"]])


class Objects(Elsewhere):
    def scenario(self, **fields):
        lru = ron.struct(name="LRU", policy=ron.Lru(spill=["dram"]), hbm=ron.share_of_peak(0.75))
        all_in = {
            "about": 'a "tiny" training step',
            "hardware": "h100-sxm-pcie5",
            "workload": ron.Trace(
                path="traces/tiny-llama-cpu",
                time=ron.roofline(device="h100-sxm-pcie5", precision="tf32"),
                repeat=3,
                warmup=1,
            ),
            "policies": [ron.struct(name="all in HBM", policy=ron.AllHbm), lru],
            "seed": 1,
            **fields,
        }
        return tiersim.Scenario("mine", **all_in)

    def test_a_scenario_of_objects_prints_as_the_file_that_is_read(self):
        scenario = self.scenario()
        scenario.save("mine.ron")
        self.assertEqual(Path("mine.ron").read_text(), str(scenario))
        of_objects, of_file = tiersim.run(scenario), tiersim.run("mine.ron")
        self.assertEqual(of_objects.summary, of_file.summary)
        self.assertEqual(of_objects.summary["scenario"], "mine")
        self.assertEqual(of_objects.summary["about"], 'a "tiny" training step')
        self.assertTrue(all(len(line) <= 100 for line in str(scenario).splitlines()), scenario)

    def test_values_print_as_the_language_has_them(self):
        for value, text in [
            (ron.gib(40), "gib(40)"),
            ({"hbm": ron.mib(1.5)}, '{"hbm": mib(1.5)}'),
            ([True, None][:1], "[true]"),
            ('a"\\\n', '"a\\"\\\\\\u{a}"'),
            (ron.AllHbm, "AllHbm"),
            (ron.Lru(), "Lru()"),
            (ron.struct(name="x", hbm=ron.gb(1)), '(name: "x", hbm: gb(1))'),
            (ron.choices([ron.Raw("(1, 2)")]), "choices([(1, 2)])"),
        ]:
            self.assertEqual(ron.text(value), text)
        self.assertRaises(TypeError, ron.text, None)
        self.assertRaises(ValueError, tiersim.Scenario, "../up")

    def test_a_mistake_has_its_place_in_the_printed_text(self):
        scenario = self.scenario(frob=1)
        with self.assertRaises(tiersim.Error) as raised:
            tiersim.run(scenario)
        error = raised.exception
        line = next(n for n, text in enumerate(str(scenario).splitlines(), 1) if "frob" in text)
        self.assertEqual((error.file, error.line, error.exit_code), ("mine.ron", line, 2))
        self.assertTrue(error.column and error.rule and error.remedy, error.diagnostics)
        self.assertEqual(os.listdir(), [])

    def test_all_problems_are_there(self):
        with self.assertRaises(tiersim.Error) as raised:
            tiersim.run(self.scenario(frob=1, hardware="h10-sxm"))
        self.assertGreaterEqual(len(raised.exception.diagnostics), 1)
        for bad in [lambda: tiersim.run("none.ron"), lambda: tiersim.run(SMALL, set={"x.y": 1})]:
            self.assertRaises(tiersim.Error, bad)
        with self.assertRaises(tiersim.Error) as raised:
            tiersim.memory(frob=1)
        self.assertIn("--frob", str(raised.exception))


class Notebooks(Elsewhere):
    def test_ten_lines_to_a_data_frame_and_a_chart(self):
        result = tiersim.run("gpt2-lru-budgets", set={"seed": 7})
        frame = result.to_pandas()
        self.assertIn("slowdown", frame)
        shown = result._repr_html_()
        self.assertEqual((shown.count("<svg"), shown.count("<table")), (1, 1))
        self.assertIn("<svg", result.chart._repr_html_())
        page = result.report()
        self.assertIn("srcdoc", page._repr_html_())
        self.assertTrue(page.html.startswith("<!DOCTYPE html>"))

    def test_a_comparison_has_what_differs(self):
        compared = tiersim.compare(
            SMALL, tiersim.run(SMALL, set={"policies.LRU 75 %.hbm": "share_of_peak(0.6)"})
        )
        cases = {row["case"] for row in compared.differences}
        self.assertIn("LRU 75 %", cases)
        self.assertNotIn("all in HBM", cases)
        row = next(
            row for row in compared
            if row["case"] == "LRU 75 %" and row["figure"] == "step_ms.mean"
        )
        self.assertGreater(row["ratio"], 1)
        self.assertEqual(row["ratio"], row["second"] / row["first"])
        self.assertIsNone(row["points"])
        less = next(
            row for row in compared
            if row["case"] == "LRU 75 %" and row["figure"] == "throughput_change_percent"
        )
        self.assertLess(less["points"], 0)
        self.assertEqual(less["points"], less["second"] - less["first"])
        self.assertIsNone(less["ratio"])
        self.assertIn("Every difference", compared.report().html)
        self.assertEqual(len(compared.to_pandas()), len(compared.to_polars()))

    def test_what_ships_is_listed(self):
        names = {row["name"] for row in tiersim.scenarios()}
        self.assertLessEqual(set(TWENTY), names)
        machines = {row["name"]: row for row in tiersim.hardware()}
        self.assertEqual(machines["h100-sxm-pcie5"]["tiers"][0]["name"], "hbm")
        machine = tiersim.hardware("h100-sxm-pcie5")
        self.assertTrue(machine.numbers.to_pandas()["source"].notna().all())
        self.assertIn("<svg", machine._repr_html_())
        self.assertIn("Scenario(", str(tiersim.scenario(SMALL)))
        again = tiersim.run(tiersim.scenario(SMALL))
        self.assertEqual(again.summary, tiersim.run(SMALL).summary)

    def test_a_trace_is_tables(self):
        trace = tiersim.load_trace("traces/tiny-llama-cpu")
        self.assertEqual((len(trace.ops), len(trace.objects), len(trace.uses)), (1494, 1172, 3476))
        self.assertEqual(sum(row["duration_ns"] > 0 for row in trace.ops), 1494)
        own = tiersim.run(SMALL, trace=trace)
        self.assertEqual(own.summary["workload"], "tiny-llama-cpu")

    def test_the_recorder_is_there_and_says_what_it_needs(self):
        if importlib.util.find_spec("torch"):
            recorder = importlib.import_module("tiersim.record").Recorder
            self.assertEqual(recorder.__name__, "Recorder")
        else:
            with self.assertRaisesRegex(ModuleNotFoundError, "pip install torch"):
                importlib.import_module("tiersim.record")
        self.assertIsNotNone(importlib.util.find_spec("tiersim_record"))

    def test_expectations_warn_or_raise_as_asked(self):
        path, value = NO_SUCH_HOPE.split("=", 1)
        with self.assertWarns(tiersim.ExpectationWarning):
            result = tiersim.run(SMALL, set={path: value})
        self.assertEqual(len(result.failed), 1)
        with self.assertRaises(tiersim.ExpectationError) as raised:
            tiersim.run(SMALL, set={path: value}, check=True)
        self.assertEqual(raised.exception.result.summary, result.summary)

    def test_a_chosen_folder_keeps_the_files(self):
        tiersim.run(SMALL, out="kept")
        self.assertTrue(Path("kept/summary.json").is_file())
        before = set(Path(tempfile.gettempdir()).glob("tiersim-*"))
        result = tiersim.run(SMALL)
        self.assertTrue(result.folder.is_dir())
        del result
        self.assertLessEqual(set(Path(tempfile.gettempdir()).glob("tiersim-*")), before)


class Process(Elsewhere):
    def test_the_import_is_quick(self):
        clock = "import time; t = time.perf_counter(); import tiersim; "
        measure = [sys.executable, "-c", clock + "print(time.perf_counter() - t)"]
        took = [float(subprocess.check_output(measure)) for _ in range(3)]
        self.assertLess(min(took), 0.2)

    @unittest.skipIf(os.name == "nt", "signals of a terminal")
    def test_ctrl_c_ends_the_command_and_leaves_nothing(self):
        # The command itself stops in the place where it would work for minutes.
        script = (
            "import tiersim\n"
            "print('begun', flush=True)\n"
            "try:\n"
            "    tiersim.run('llama-2-7b-24gb', uncertainty=10000, out='out')\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted', flush=True)\n"
        )
        python = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        self.assertEqual(python.stdout.readline(), "begun\n")
        deadline = time.monotonic() + 60
        while not (children := children_of(python.pid)) and time.monotonic() < deadline:
            pass
        self.assertEqual(len(children), 1)
        python.send_signal(signal.SIGINT)
        said, _ = python.communicate(timeout=60)
        self.assertEqual((said, python.returncode), ("interrupted\n", 0))
        self.assertFalse(Path(f"/proc/{children[0]}").exists())
        self.assertEqual(list(Path().glob("out/*")), [])

    def test_what_ends_the_command_is_said(self):
        script = Path("crash")
        script.write_text("#!/bin/sh\nkill -9 $$\n")
        script.chmod(0o755)
        with unittest.mock.patch.dict(os.environ, TIERSIM=str(script.resolve())):
            with self.assertRaises(tiersim.Fault) as raised:
                tiersim.run(SMALL)
        self.assertIn("SIGKILL", str(raised.exception))

    def test_other_threads_run_while_the_command_works(self):
        import threading

        stop, turns = threading.Event(), []

        def count():
            while not stop.is_set():
                turns.append(1)
                time.sleep(0)

        thread = threading.Thread(target=count)
        thread.start()
        tiersim.run(SMALL)
        stop.set()
        thread.join()
        self.assertGreater(len(turns), 100)

    def test_progress_shows_by_tqdm(self):
        import contextlib
        import io

        shown = io.StringIO()
        at_once = unittest.mock.patch("tiersim._child._QUIET", 0)
        with contextlib.redirect_stderr(shown), at_once:
            tiersim.run(SMALL)
        self.assertIn("cases", shown.getvalue())
        with contextlib.redirect_stderr(io.StringIO()) as silent:
            tiersim.run(SMALL, progress=False)
        self.assertEqual(silent.getvalue(), "")


def children_of(pid):
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


if __name__ == "__main__":
    warnings.simplefilter("error")
    unittest.main()
