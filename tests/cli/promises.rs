//! docs/explanation/promises.md: every row is worked out again from what its commands print, and
//! every verdict from what is claimed.

use crate::common::*;

/// A row of the page.
struct Promise {
    what: String,
    claimed: String,
    ours: String,
    verdict: String,
    commands: Vec<String>,
    figure: String,
}

/// The rows of a section; of all where it is empty.
fn rows(section: &str) -> Vec<Promise> {
    let page = fs::read_to_string(shipped("docs/explanation/promises.md")).expect("it is there");
    let sections = page.split("\n## ").skip(1).filter(|text| text.starts_with(section));
    let lines = sections.flat_map(|text| text.lines().collect::<Vec<_>>());
    let rows = lines.filter(|line| line.starts_with("| ") && !line.starts_with("| promise"));
    let read = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [what, claimed, ours, verdict, how] = cells[..] else { panic!("{line}") };
        let mut code: Vec<String> = how.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let figure = code.pop().unwrap_or_default();
        let [what, claimed, ours, verdict] = [what, claimed, ours, verdict].map(str::to_owned);
        Promise { what, claimed, ours, verdict, commands: code, figure }
    };
    rows.map(read).collect()
}

/// Words with blanks between them, but for those in quotes and in brackets.
fn parted(text: &str) -> Vec<String> {
    let (mut all, mut word, mut inside) = (Vec::new(), String::new(), 0);
    for c in text.chars() {
        match c {
            '[' => inside += 1,
            ']' => inside -= 1,
            _ => {}
        }
        match c {
            '\'' => inside = 1 - inside,
            ' ' if inside == 0 => all.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    all.push(word);
    all
}

/// The element of a list that has this name, or, of switches, these options; of a map the value
/// of this key.
fn named<'v>(list: &'v Value, name: &str) -> &'v Value {
    if list.is_object() {
        return &list[name];
    }
    let called = |value: &Value| value.as_str() == Some(name);
    let is = |element: &&Value| {
        let options = element["alone"]["changes"].as_array().into_iter().flatten();
        let options: Vec<&str> = options.filter_map(Value::as_str).collect();
        let mut values = element.as_object().into_iter().flat_map(|map| map.values());
        values.any(called) || options.join(" ") == name
    };
    let list = list.as_array().unwrap_or_else(|| panic!("[{name}] of no list"));
    list.iter().find(is).unwrap_or_else(|| panic!("nothing is called {name}"))
}

/// A number, or what stands at a path.
fn operand(root: &Value, text: &str) -> f64 {
    if let Ok(number) = text.parse() {
        return number;
    }
    let (mut at, mut rest) = (root, text);
    while !rest.is_empty() {
        if let Some(name) = rest.strip_prefix('[') {
            let (name, behind) = name.split_once(']').expect("a bracket that ends");
            (at, rest) = (named(at, name), behind);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (key, behind) = rest.split_at(end);
            at = key.parse::<usize>().map_or_else(|_| &at[key], |index| &at[index]);
            rest = behind;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
    }
    at.as_f64().unwrap_or_else(|| panic!("{text}: {at} is no number"))
}

/// Sums, differences, products and ratios, from the left to the right.
fn worked_out(root: &Value, figure: &str) -> f64 {
    let words = parted(figure);
    let mut value = operand(root, &words[0]);
    for pair in words[1..].chunks(2) {
        let [sign, other] = pair else { panic!("{figure}") };
        let other = operand(root, other);
        value = match sign.as_str() {
            "+" => value + other,
            "-" => value - other,
            "*" => value * other,
            "/" => value / other,
            sign => panic!("{figure}: {sign}"),
        };
    }
    value
}

/// A number at the start of a text, and its decimals.
fn number(text: &str) -> (f64, usize) {
    let digits = |c: &char| c.is_ascii_digit() || "-.,".contains(*c);
    let own: String = text.chars().take_while(digits).filter(|c| *c != ',').collect();
    let decimals = own.split_once('.').map_or(0, |(_, behind)| behind.len());
    (own.parse().unwrap_or_else(|_| panic!("no number in {text:?}")), decimals)
}

/// Whether a figure is what is claimed, by the rule of the page.
fn holds(claimed: &str, ours: f64) -> bool {
    if let Some(most) = claimed.strip_prefix("below ") {
        return ours < number(most).0;
    }
    if let Some(least) = claimed.strip_prefix("above ") {
        return ours > number(least).0;
    }
    if let Some((from, to)) = claimed.split_once(" to ") {
        return (number(from).0..=number(to).0).contains(&ours);
    }
    let (share, text) = claimed.strip_prefix("about ").map_or((0.01, claimed), |text| (0.1, text));
    let (wanted, decimals) = number(text);
    (ours - wanted).abs() <= share * wanted
        || format!("{ours:.decimals$}") == format!("{wanted:.decimals$}")
}

/// Runs what the rows of a section name, each command once, and compares.
fn keeps(section: &str, least: usize) {
    let project = Project::shipped();
    let mut printed: BTreeMap<String, Value> = BTreeMap::new();
    let all = rows(section);
    assert!(all.len() >= least, "{section}: {} rows", all.len());
    for row in all.iter().filter(|row| !row.commands.is_empty()) {
        let what = &row.what;
        let mut found = Vec::new();
        for command in &row.commands {
            let json = printed.entry(command.clone()).or_insert_with(|| {
                let mut words = parted(command);
                assert_eq!(words.remove(0), "tiersim", "{what}");
                words.extend(["--format", "json"].map(str::to_owned));
                let args: Vec<&str> = words.iter().map(String::as_str).collect();
                project.run(&args).ends_with(0).json()
            });
            found.push(json.clone());
        }
        let root = if found.len() == 1 { found.remove(0) } else { Value::Array(found) };
        let value = worked_out(&root, &row.figure);
        let (shown, decimals) = number(&row.ours);
        let ours = format!("{value:.decimals$}");
        assert_eq!(ours, format!("{shown:.decimals$}"), "{what}: {value}, by {}", row.figure);
        let verdict = row.verdict.split(':').next();
        let expected = if holds(&row.claimed, shown) { "held" } else { "refuted" };
        assert_eq!(verdict, Some(expected), "{what}: {} is claimed, and it is {ours}", row.claimed);
    }
}

#[test]
fn the_guides() {
    keeps("The guides", 30);
}

#[test]
fn structured_operators() {
    keeps("Structured operators", 7);
}

#[test]
fn partitioned_and_offloaded_state() {
    keeps("ZeRO", 20);
}

#[test]
fn activations() {
    keeps("Activations", 15);
}

#[test]
fn optimizers_adapters_and_formats() {
    keeps("Optimizers", 14);
}

#[test]
fn serving() {
    keeps("Serving", 20);
}

#[test]
fn every_row_has_a_verdict_with_its_reason_and_a_command() {
    let all = rows("");
    assert!(all.len() >= 60, "{} rows", all.len());
    for row in &all {
        let Promise { what, claimed, verdict, .. } = row;
        assert!(claimed.chars().any(|c| c.is_ascii_digit()), "{what}: {claimed:?} is no claim");
        if let Some(why) = verdict.strip_prefix("cannot be tried here: ") {
            assert!(!why.is_empty() && row.ours == "-" && row.commands.is_empty(), "{what}");
            continue;
        }
        let has_reason = verdict.strip_prefix("refuted: ").is_some_and(|why| why.len() > 5);
        assert!(verdict.starts_with("held") || has_reason, "{what}: {verdict}");
        assert!(!row.commands.is_empty(), "{what}: nothing shows it");
    }
    let verdicts = ["held", "refuted", "cannot be tried here"];
    let of = |word: &str| all.iter().filter(|row| row.verdict.starts_with(word)).count();
    assert_eq!(verdicts.map(of).iter().sum::<usize>(), all.len());
    assert!(verdicts.map(of).iter().all(|&count| count > 0));
}

#[test]
fn a_claim_holds_by_the_rule_of_the_page() {
    for (claimed, ours, expected) in [
        ("15 to 20 %", 15.0, true),
        ("15 to 20 %", 14.9, false),
        ("below 25 %", 25.0, false),
        ("above 98 %", 98.1, true),
        ("31.4 GB", 31.4, true),
        ("31.4 GB", 31.8, false),
        ("about 1,200 GB", 1300.0, true),
        ("about 1,200 GB", 1330.0, false),
        ("1 TiB", 1.4, true),
    ] {
        assert_eq!(holds(claimed, ours), expected, "{claimed} {ours}");
    }
    let root: Value = serde_json::from_str(
        r#"{"a": [{"label": "x y", "n": 6}, {"alone": {"changes": ["--b 1", "--c 2"]}, "n": 4}]}"#,
    )
    .expect("it is JSON");
    assert_eq!(worked_out(&root, "a[x y].n - a[--b 1 --c 2].n / a.1.n * 100"), 50.0);
}
