"""Policies as Python classes: the same trait, the same ledger, the same decisions."""

import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path

import tiersim
from tiersim import HBM, PolicyError, ron
from tiersim._child import command
from tiersim.policy import _name

SMALL = "tiny-llama-lru"
LRU = "LRU 50 %"


class Lru(tiersim.Policy):
    """Demand paging, least recently used first out: what ``Lru(spill: [...])`` is in Rust
    (policies/src/zoo/demand/executor.rs and policies/src/replacement/lru.rs)."""

    def __init__(self, spill):
        self.spill = spill

    def begin(self, setting):
        names = [tier.name for tier in setting.tiers]
        self.tiers = [names.index(name) for name in self.spill]
        self.order = {}  # oldest first
        self.used = []

    def home(self, object, step):
        for tier in self.tiers:
            if step.is_allocated(object, tier):
                return tier
        fits = (t for t in self.tiers if step.fits(t, step.room_of(object, t)))
        return next(fits, None)

    def leave(self, keep):
        gone = next((object for object in self.order if not keep(object)), None)
        self.order.pop(gone, None)
        return gone

    def victim(self, step):
        def stuck(object):
            return step.in_hbm(object) and self.home(object, step) is None

        while True:
            gone = self.leave(lambda object: step.is_used(object) or stuck(object))
            if gone is None:
                gone = self.leave(step.is_used)
            if gone is None or step.in_hbm(gone):
                return gone

    def initial_tier(self, object, step):
        home = self.home(object, step)
        return self.tiers[-1] if home is None else home

    spill_tier = initial_tier

    def plan_op(self, step):
        for object in self.used:
            if not step.existed(object):
                self.order.pop(object, None)
        for use in step.uses:
            self.request(use.object, step)
        self.used = [use.object for use in step.uses]
        step.fetch_missing()

    def request(self, object, step):
        here = step.was_in_hbm(object)
        if not here:
            self.order.pop(object, None)
        elif object in self.order:
            self.order[object] = self.order.pop(object)
            return
        if not here:
            while not step.has_free(HBM, step.bytes(object)):
                gone = self.victim(step)
                if gone is None:
                    break
                step.evict(gone, HBM, self.initial_tier(gone, step))
            step.expect(object, HBM)
        self.order[object] = None

    def make_room(self, tier, step):
        gone = self.victim(step) if tier == HBM else None
        if gone is not None:
            step.evict(gone, HBM, self.initial_tier(gone, step))


def random_trace(folder, chance):
    """A trace of objects that persist and that ops create, used at random."""
    folder.mkdir(parents=True)
    kept, made, ops = chance.randint(3, 12), chance.randint(2, 20), chance.randint(8, 60)
    sizes = [chance.randint(1, 64) * 65536 for _ in range(kept)]
    objects = [f"{i},w{i},weight,{size},float32,true,m{i % 3}" for i, size in enumerate(sizes)]
    uses, born, rows = [], [], []
    for op in range(ops):
        touched = chance.sample(range(kept), chance.randint(1, min(3, kept)))
        lines = [f"{op},{object},{chance.choice(['r', 'rw', 'w'])}" for object in touched]
        if len(born) < made and chance.random() < 0.5:
            object = kept + len(born)
            size = chance.randint(1, 48) * 65536
            objects.append(f"{object},t{object},activation,{size},float32,false,m{object % 3}")
            born.append(object)
            lines.append(f"{op},{object},w")
        elif born:
            lines += [f"{op},{object},r" for object in chance.sample(born, min(len(born), 2))]
        uses += lines
        rows.append(f"{op},{op * 2 // ops},forward,op{op},0,0,{chance.randint(1, 200) * 1000},0,0,")
    tables = {
        "objects": ["id,name,kind,bytes,dtype,persistent,module", *objects],
        "ops": ["id,step,phase,name,stream,rank,duration_ns,flops,bytes,at_ns", *rows],
        "uses": ["op,object,mode", *uses],
    }
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    header = ron.struct(
        schema=1,
        name="random",
        about="drawn",
        recorded=ron.struct(how="", when="", on=""),
        precision="fp32",
        batch=1,
        sequence=1,
        steps=2,
        rows=ron.struct(objects=len(objects), ops=ops, uses=len(uses), statistics=0),
    )
    (folder / "trace.ron").write_text(ron.text(header))


class Elsewhere(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)


def decisions(result, label):
    """All that a case measured, and every copy and op of it with its times."""
    case = dict(result[label])
    for own in ("policy", "label", "details"):
        case.pop(own)
    events = result.timeline["traceEvents"]
    named = (e for e in events if e["name"] == "process_name" and e["args"]["name"] == label)
    process = next(named, {}).get("pid")
    told = [e for e in events if e["ph"] != "M" and e["pid"] == process]
    return case, [{**event, "pid": 0} for event in told]


class Twins(Elsewhere):
    def test_a_policy_and_its_rust_twin_decide_alike_on_200_random_traces(self):
        chance, moved, full = random.Random(1), 0, 0
        for number in range(200):
            random_trace(Path(f"traces/{number}"), chance)
            budget = ron.share_of_peak(round(chance.uniform(0.5, 1.0), 3))
            spill = chance.choice([["dram"], ["dram", "nvme"]])
            policies = {"rust": ron.Lru(spill=spill), "python": ron.Python()}
            scenario = tiersim.Scenario(
                f"twins-{number}",
                about="a policy and its twin",
                hardware="a100-40g-pcie4" if number % 2 else "h100-sxm-pcie5",
                workload=ron.Trace(
                    path=f"traces/{number}", time=ron.recorded(scale=1.0), repeat=3, warmup=1
                ),
                policies=[
                    ron.struct(name=name, policy=policy, hbm=budget)
                    for name, policy in policies.items()
                ],
            )
            with warnings.catch_warnings():
                # That some are out of memory is meant.
                warnings.simplefilter("ignore", tiersim.ExpectationWarning)
                result = tiersim.run(scenario, policy=Lru(spill), progress=False)
            self.assertEqual(decisions(result, "python"), decisions(result, "rust"), number)
            full += result["rust"]["oom"]
            self.assertTrue(result["rust"]["oom"] or decisions(result, "rust")[1])
            moved += any((result["rust"]["moved_bytes"] or {}).values())
        self.assertGreater(moved, 100)
        self.assertLess(full, 50)

    def test_it_takes_the_place_of_a_case_of_a_real_recording(self):
        plain = tiersim.run(SMALL)
        result = tiersim.run(SMALL, policy=Lru(["dram"]), instead_of="LRU 75 %")
        self.assertEqual(decisions(result, "LRU 75 %"), decisions(plain, "LRU 75 %"))
        self.assertEqual(result["LRU 75 %"]["policy"], "python")
        self.assertEqual(result["LRU 75 %"]["details"], "Lru")
        self.assertNotEqual(result.fingerprint, plain.fingerprint)


class Followed(Elsewhere):
    """A plan that is written, and followed, is the run that it was written of."""

    def follow(self, scenario, label, set):
        told = [word for path, value in set.items() for word in ("--set", f"{path}={value}")]
        asked = [command(), "to", "plan", scenario, "--case", label, *told]
        plan = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
        Path("plan.json").write_text(plan)
        with warnings.catch_warnings():
            # It is another policy that the scenario expects something of.
            warnings.simplefilter("ignore", tiersim.ExpectationWarning)
            own = tiersim.run(scenario, set=set, progress=False)
            policy = tiersim.Plan("plan.json")
            followed = tiersim.run(
                scenario, set=set, policy=policy, instead_of=label, progress=False
            )
        self.assertEqual(decisions(followed, label), decisions(own, label))
        self.assertGreater(sum(own[label]["moved_bytes"].values()), 0)
        return json.loads(plan), own[label]

    def test_of_every_kind_of_policy(self):
        for policy in [
            'Lru(spill: ["dram"])',
            'ClairvoyantOffload(spill: ["dram"])',
            'ClairvoyantOffload(spill: ["dram"], in_place: true)',
            'Optimal(spill: ["dram"], runs: 20)',
            'PlannedMigration(spill: ["dram"])',
            "UnifiedMemory()",
        ]:
            with self.subTest(policy):
                set = {f"policies.{LRU}.policy": policy}
                plan, case = self.follow(SMALL, LRU, set)
                self.assertEqual(plan["step_ps"], round(case["step_ms"]["mean"] * 1e9))
                self.assertTrue(plan["objects"] and plan["replays"][-1]["ops"])

    def test_what_is_no_plan_of_the_trace_is_refused(self):
        plan, _ = self.follow(SMALL, LRU, {})
        for key, value in [("schema", 2), ("ops", 1), ("tiers", ["hbm"]), ("objects", {"0": {}})]:
            wrong = {**plan, key: value}
            if key == "objects":
                number, named = next(iter(plan["objects"].items()))
                wrong["objects"] = {number: {**named, "bytes": named["bytes"] + 1}}
            Path("wrong.json").write_text(json.dumps(wrong))
            refused = (tiersim.Error, PolicyError)
            with self.subTest(key), self.assertRaisesRegex(refused, "wrong.json"):
                tiersim.run(SMALL, policy=tiersim.Plan("wrong.json"), instead_of=LRU)

    def test_a_damaged_plan_is_an_error_with_its_file(self):
        plan, _ = self.follow(SMALL, LRU, {})
        replay = plan["replays"][0]
        op = replay["ops"][0]

        def with_op(**changes):
            return {**plan, "replays": [{**replay, "ops": [{**op, **changes}]}]}

        needed = ["schema", "lookahead", "ops", "tiers", "objects", "start", "replays"]
        damaged = [
            "{",
            "[]",
            *({key: value for key, value in plan.items() if key != gone} for gone in needed),
            {**plan, "replays": []},
            {**plan, "replays": [{**replay, "from": 1}]},
            {**plan, "replays": [{"from": 0}]},
            {**plan, "start": [[0]]},
            {**plan, "objects": {"x": {}}},
            *(with_op(do=do) for do in ["x", [["fetch", 0]], [["frob", 0]], [["delay", 0.5]]]),
            with_op(do=[[]]),
            with_op(born=[[0]]),
        ]
        for wrong in damaged:
            Path("wrong.json").write_text(wrong if isinstance(wrong, str) else json.dumps(wrong))
            with self.subTest(str(wrong)[:60]), self.assertRaises(tiersim.Error) as raised:
                tiersim.Plan("wrong.json")
            error = raised.exception
            self.assertEqual(error.file, "wrong.json")
            self.assertTrue(error.rule and error.remedy and "wrong.json" in str(error))


class AllThere(tiersim.Policy):
    """Everything in HBM from the start."""

    def initial_tier(self, object, step):
        return HBM

    def plan_op(self, step):
        pass


class Failing(AllThere):
    def __init__(self, at):
        self.at = at

    def plan_op(self, step):
        if step.op.number == self.at:
            raise RuntimeError("no idea")


class Wrong(AllThere):
    def __init__(self, take):
        self.take = take

    def plan_op(self, step):
        self.take(step)


class Ahead(AllThere):
    def __init__(self, lookahead):
        self.lookahead = lookahead

    def begin(self, setting):
        self.setting, self.expected = setting, None

    def plan_op(self, step):
        # What was seen ahead is what comes.
        uses = [use.object for use in step.uses]
        assert self.expected is None or uses == self.expected, (uses, self.expected)
        later = step.ahead(1)
        last = step.op.number + 1 == self.setting.ops * self.setting.repeat
        assert (later is None) == (self.lookahead == "past" or last)
        assert step.ahead(4) is None or self.lookahead == "oracle"
        self.expected = None if later is None else [use.object for use in later]


class Rules(Elsewhere):
    def run_with(self, policy, **options):
        return tiersim.run(SMALL, policy=policy, instead_of="LRU 100 %", **options)

    def test_an_exception_ends_the_run_with_its_traceback_and_exit_code_2(self):
        with self.assertRaises(tiersim.PolicyError) as raised:
            self.run_with(Failing(at=700), out="out")
        error = raised.exception
        self.assertEqual((error.exit_code, error.op, error.policy), (2, 700, "Failing"))
        self.assertIsInstance(error.__cause__, RuntimeError)
        self.assertIn('raise RuntimeError("no idea")', str(error))
        self.assertEqual(os.listdir(), [], "nothing is written")

    def test_the_command_itself_ends_so(self):
        # What the module tells it, by hand.
        arguments = ["run", SMALL, "--set", "policies.LRU 100 %.policy=Python()"]
        ran = subprocess.run(
            [command(), *arguments, "--stdio-policy", "Mine"],
            input='{"error": "Traceback: no idea"}\n',
            capture_output=True,
            text=True,
        )
        said = 'error: case "LRU 100 %": policy Mine, before the first op: Traceback: no idea\n'
        self.assertEqual((ran.returncode, ran.stderr), (2, said))
        self.assertTrue(ran.stdout.startswith('{"ask":"begin"'))
        for answer in ["", "x\n", "[]\n", '{"lookahead": "far"}\n']:
            ran = subprocess.run(
                [command(), *arguments, "--stdio-policy", "Mine"],
                input=answer,
                capture_output=True,
                text=True,
            )
            self.assertEqual(ran.returncode, 2, answer)
            self.assertIn('case "LRU 100 %": policy Mine, before the first op: ', ran.stderr)
            self.assertIn("(found ", ran.stderr)
        self.assertEqual(os.listdir(), [])

    def test_the_ledger_refuses_what_it_refuses_of_any_policy(self):
        for take, said in [
            (lambda step: step.fetch(10**6, 0), r'found \["fetch",1000000,0\]'),
            (lambda step: step.evict(0, 0, 7), r'found \["evict",0,0,7\]'),
            (lambda step: step.prefetch(0, 1.9), r'found \["prefetch",0,1.9\]'),
            (lambda step: step.prefetch(0, 1.0), r'found \["prefetch",0,1.0\]'),
            (lambda step: step.delay(0.4), r'found \["delay",0.4\]'),
            (lambda step: step.delay(None), r'found \["delay",null\]'),
            (lambda step: step.drop_copy(0, object()), r'found \["drop",0,"<object'),
            (lambda step: step.actions.append("junk"), r'found "junk"'),
            (lambda step: step.drop_copy(step.uses[0].object, HBM), r"found drop \S+ in hbm"),
            (lambda step: step.evict(step.uses[0].object, HBM, 1), "found object .* outside HBM"),
            (lambda step: step.delay(10**13 + 1), "between 0 and 10 s .found delay"),
            (lambda step: step.charge(1, 2**63), "found charge .* of dram"),
        ]:
            with self.subTest(said), self.assertRaises(tiersim.Error) as raised:
                self.run_with(Wrong(take))
            message = str(raised.exception)
            self.assertRegex(message, said)
            self.assertRegex(message, r'^case "LRU 100 %": policy Wrong, op 0 of the run \(\S+\): ')
            self.assertRegex(message, r"\(found .*\); ", "and a remedy")
            self.assertIs(type(raised.exception), tiersim.Error)
            self.assertEqual(raised.exception.exit_code, 2)

    def test_a_tier_that_is_none_is_refused_and_not_cut(self):
        for wrong in [1.9, -1, 9, "dram", None]:
            policy = AllThere()
            policy.initial_tier = lambda object, step, wrong=wrong: wrong
            with self.subTest(wrong), self.assertRaises(tiersim.Error) as raised:
                self.run_with(policy)
            self.assertRegex(
                str(raised.exception),
                r'^case "LRU 100 %": policy AllThere, before the first op: initial_tier of object '
                r"\S+ must be a tier of the machine \(found .*\); tiers are the whole numbers from",
            )

    def test_a_time_is_bounded_for_the_op_and_for_the_run(self):
        # 10 s is what files may say; 10^6 s the ops of a run together.
        for take in [
            lambda step: step.delay(10**13),
            lambda step: step.charge(1, 10**12),
        ]:
            with self.assertWarns(tiersim.ExpectationWarning):
                result = self.run_with(Wrong(take))
            self.assertGreater(result["LRU 100 %"]["step_ms"]["mean"], 1e4)
        for each in [10**15, 10**17, 2**63]:
            with self.subTest(each), self.assertRaisesRegex(tiersim.Error, r"10\^6 s together"):
                self.run_with(Wrong(lambda step: step.charge(1, each)))

    def test_a_policy_that_no_case_asks_is_refused(self):
        for options in [{}, {"instead_of": LRU, "policy": [AllThere(), Failing(at=1)]}]:
            with self.assertRaises(tiersim.Error) as raised:
                tiersim.run(SMALL, **{"policy": Failing(at=1), **options}, out="out")
            self.assertRegex(str(raised.exception), r"found Failing, number [01], which no case")
        with self.assertRaisesRegex(tiersim.Error, "which no case asks"):
            tiersim.compare(SMALL, SMALL, policy=AllThere())
        for verb in ["run", "solve", "explain"]:
            wanted = ["--fit"] if verb == "solve" else []
            told = [command(), verb, SMALL, *wanted, "--stdio-policy", "nobody"]
            ran = subprocess.run(told, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            self.assertEqual(ran.returncode, 2, ran.stderr)
            self.assertIn("found nobody, number 0, which no case asks", ran.stderr)
        self.assertEqual(os.listdir(), [])

    def test_a_class_is_no_policy(self):
        with self.assertRaisesRegex(TypeError, r"AllThere is a class.*write AllThere\(\)"):
            tiersim.run(SMALL, policy=AllThere, instead_of=LRU)
        with self.assertRaisesRegex(TypeError, "no tiersim.Policy"):
            tiersim.run(SMALL, policy=[1], instead_of=LRU)

    def test_a_policy_sees_as_much_of_the_future_as_it_declares(self):
        for lookahead in ["past", 3, "oracle"]:
            result = self.run_with(Ahead(lookahead))
            self.assertEqual(result["LRU 100 %"]["slowdown"], 1.0)
            sight = result["LRU 100 %"]["sight"]
            self.assertEqual(sight, "past" if lookahead == "past" else sight)

    def test_several_policies_and_a_sweep(self):
        choices = [ron.pair("first", "Python()"), ron.pair("second", "Python(number: 1)")]
        axis = ron.struct(
            name="mine", path="policies.LRU 100 %.policy", values=ron.choices(choices)
        )
        swept = tiersim.sweep(
            SMALL,
            set={"sweep": ron.struct(axes=[axis])},
            policy=[AllThere(), Lru(["dram"])],
        )
        details = {case["details"] for case in swept if case["policy"] == "python"}
        self.assertEqual(details, {"AllThere", "Lru"})
        with self.assertRaises(tiersim.Error) as raised:
            tiersim.run(SMALL, set={"policies.0.policy": ron.Python(number=3)}, policy=AllThere())
        self.assertIn("1 policies of the program", str(raised.exception))

    def test_what_is_asked_is_known_only_to_programs(self):
        with self.assertRaises(tiersim.Error) as raised:
            tiersim.run(SMALL, set={"policies.0.policy": ron.Python()})
        self.assertIn("Python", str(raised.exception))

    def test_a_scenario_of_objects_and_a_policy_at_once(self):
        text = str(tiersim.scenario(SMALL)).replace("AllHbm", "Python()")
        scenario = tiersim.Scenario.from_ron(text, SMALL)
        result = tiersim.run(scenario, policy=AllThere())
        plain = tiersim.run(SMALL)
        self.assertEqual(decisions(result, "all in HBM"), decisions(plain, "all in HBM"))



class InPlace(AllThere):
    """All that exists is used where it is, in DRAM."""

    def __init__(self, **how):
        self.how = how

    def initial_tier(self, object, step):
        return 1

    def plan_op(self, step):
        for use in step.uses:
            if step.existed(use.object):
                step.use_in_place(use.object, **self.how)


class HalfPaid(InPlace):
    """The first half of the bytes is paid, by actions of its own."""

    def plan_op(self, step):
        for use in step.uses:
            if step.existed(use.object):
                step.actions.append(["in_place", use.object])
                step.charge(1, step.bytes(use.object) // 2)


class BornSlow(InPlace):
    """What ops create is in DRAM too, and they say nothing of it."""

    def allocate_in(self, object, step):
        return 1


class Paying(Elsewhere):
    def run_with(self, policy):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tiersim.ExpectationWarning)
            return tiersim.run(SMALL, policy=policy, instead_of=LRU, progress=False)

    def test_what_an_op_creates_in_hbm_costs_nothing(self):
        class All(InPlace):
            def plan_op(self, step):
                for use in step.uses:
                    step.use_in_place(use.object)

        own, same = (decisions(self.run_with(policy), LRU)[0] for policy in [All(), InPlace()])
        self.assertEqual(own, same)

    def test_use_in_place_pays_for_every_byte_that_it_touches(self):
        result = self.run_with(InPlace())
        case = result[LRU]
        self.assertFalse(case["emulated"])
        self.assertGreater(case["step_ms"]["mean"], result["LRU 75 %"]["step_ms"]["mean"])
        self.assertGreater(case["in_place_ms"]["dram"], 0)

    def test_a_case_that_does_not_pay_for_all_is_emulated_whatever_it_says(self):
        for policy in [InPlace(charge=False), HalfPaid(), BornSlow()]:
            result = self.run_with(policy)
            with self.subTest(type(policy).__name__):
                self.assertTrue(result[LRU]["emulated"])
                self.assertNotIn(LRU, " ".join(result.verdict[:1]))


class Fingerprint(unittest.TestCase):
    """Equal for two policies if and only if they are the same."""

    def named(self, *lines, policy="P()", seed="0"):
        """What a policy of these lines is called by the command, by an interpreter that has them
        from nowhere."""
        program = "\n".join(
            ["import tiersim, warnings", "from tiersim.policy import _name", *lines]
            + [f"print(_name({policy}))"]
        )
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        told = [sys.executable, "-c", program]
        ran = subprocess.run(told, capture_output=True, text=True, check=True, env=environment)
        return ran.stdout.strip()

    def differ(self, *programs):
        names = [self.named(*program) for program in programs]
        self.assertEqual(names, [self.named(*program, seed="7") for program in programs])
        self.assertEqual(len(set(names)), len(names), names)

    def test_code_counts_where_there_is_no_source(self):
        one = ["class P(tiersim.Policy):", "    def plan_op(self, step): step.fetch(0, 0)"]
        self.differ(one, [one[0], one[1].replace("fetch(0", "fetch(1")])
        self.differ(one, [one[0], one[1].replace("fetch", "prefetch")])

    def test_code_of_the_classes_that_it_inherits_from_counts(self):
        base = ["class B(tiersim.Policy):", "    most = 1", "    def f(self): return {'a', 1.5}"]
        other = [line.replace("1.5", "2.5") for line in base]
        most = [line.replace("= 1", "= 2") for line in base]
        self.differ(*([*lines, "class P(B): pass"] for lines in [base, other, most]))

    def test_globals_that_methods_read_count(self):
        method = ["class P(tiersim.Policy):", "    def plan_op(self, step): return [K for _ in ()]"]
        for one, other in [
            ("K = 1", "K = 2"),
            ("K = lambda: 1", "K = lambda: 2"),
            ("L = 1\ndef K(): return L", "L = 2\ndef K(): return L"),
            ("class K:\n    a = 1", "class K:\n    a = 2"),
            ("K = [{'a': (1, 2)}]", "K = [{'a': (1, 3)}]"),
        ]:
            self.differ([one, *method], [other, *method])
        unread = [self.named(f"L = {number}", "K = 1", *method) for number in [1, 2]]
        self.assertEqual(*unread)

    def test_what_it_holds_counts_to_the_last_byte(self):
        held = ["class P(tiersim.Policy):", "    def __init__(self, a): self.a = a"]
        helper = ["class H: pass", "def h(x):", "    o = H(); o.x = x; o.me = o; return o"]
        setup = ["import array, random", *held, *helper]
        values = ["1", "1.0", "'1'", "True", "None", "[1]", "(1,)", "{1}", "{'x', 'y', 'z'}"]
        values += ["{1: 2}", "h(1)", "h(2)", "random.Random(1)", "random.Random(2)", "len", "H"]
        values += ["array.array('d', [1, 2])", "array.array('f', [1, 2])", "lambda: 1", "2"]
        for seed in ["0", "7"]:
            names = [self.named(*setup, policy=f"P({value})", seed=seed) for value in values]
            again = [self.named(*setup, policy=f"P({value})", seed="3") for value in values]
            self.assertEqual(names, again)
            self.assertEqual(len(set(names)), len(values))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_arrays_count_whole(self):
        held = ["import numpy as np", "class P(tiersim.Policy):"]
        held += ["    def __init__(self, a): self.a = a"]
        zeros = "np.zeros(2000)"
        arrays = [zeros, f"{zeros}.reshape(40, 50)", f"{zeros}.astype('f4')", "np.eye(50)[:40]"]
        arrays += ["np.arange(2000.0)", "-np.arange(2000.0)", "np.int8(1)", "np.int8(2)"]
        arrays += ["np.random.default_rng(1)", "np.random.default_rng(2)"]
        names = [self.named(*held, policy=f"P({one})") for one in arrays]
        self.assertEqual(names, [self.named(*held, policy=f"P({one})") for one in arrays])
        self.assertEqual(len(set(names)), len(names))

    def test_what_has_no_form_is_said(self):
        with self.assertWarnsRegex(tiersim.FingerprintWarning, "knows nothing of lock") as warned:
            policy = AllThere()
            policy.lock = threading.Lock()
            _name(policy)
        self.assertIn("AllThere", str(warned.warning))

    def test_a_plan_is_what_it_says_wherever_it_lies(self):
        plan = {"schema": 1, "lookahead": "past", "ops": 1, "tiers": [], "objects": {}, "start": []}
        plan["replays"] = [{"from": 0, "ops": []}]
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, name) for name in ["a.json", "b.json", "c.json"]]
            for file, start in zip(files, [[], [], [[0, 1]]]):
                file.write_text(json.dumps({**plan, "start": start}))
            one, same, other = (_name(tiersim.Plan(file)) for file in files)
        self.assertEqual(one, same)
        self.assertNotEqual(one, other)


if __name__ == "__main__":
    unittest.main()
