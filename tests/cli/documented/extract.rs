//! The commands of a document: lines of blocks, and whole commands between backticks.

/// A command as a document has it.
#[derive(Debug)]
pub(crate) struct Command {
    /// File and line.
    pub(super) place: String,
    /// Without comments and without the `[options]` of a synopsis.
    pub(crate) words: Vec<String>,
    /// What stands behind it.
    pub(crate) comment: String,
    /// Between backticks in a sentence.
    pub(super) inline: bool,
    /// What it must end with.
    pub(super) exit: i32,
    /// Lines that the page says it prints: those of a block of text right behind its own block.
    pub(super) shown: Vec<String>,
}

/// Programs whose commands are looked for.
const PROGRAMS: [&str; 3] = ["tiersim ", "cargo ", "pip "];

/// All commands of a text, in its order.
pub(crate) fn commands(document: &str, text: &str) -> Vec<Command> {
    let mut found = Vec::new();
    // Blocks of other languages hold no commands.
    let mut fence: Option<bool> = None;
    let mut lines = text.lines().enumerate();
    // Whether the last command is what the block here, or the next one, is printed by.
    let (mut ran, mut prints) = (false, false);
    while let Some((number, line)) = lines.next() {
        let place = format!("{document}:{}", number + 1);
        if let Some(language) = line.trim_start().strip_prefix("```") {
            let shell = matches!(language.trim(), "" | "sh" | "console");
            prints = fence.is_none() && ran && language.trim() == "text";
            ran = fence == Some(true) && ran;
            fence = if fence.is_some() { None } else { Some(shell) };
            continue;
        }
        if prints {
            let last: &mut Command = found.last_mut().expect("a command before it");
            last.shown.push(line.to_owned());
        }
        ran &= fence.is_some() || line.trim().is_empty();
        if fence.is_none() && !line.starts_with("    ") {
            found.extend(spans(line).map(|span| command(&place, span, true)));
            continue;
        }
        let typed = line.trim().trim_start_matches("$ ");
        if fence == Some(false) || !PROGRAMS.iter().any(|program| typed.starts_with(program)) {
            continue;
        }
        let mut whole = typed.to_owned();
        while open(&whole) {
            let Some((_, next)) = lines.next() else { break };
            whole = format!("{}\n{}", whole.trim_end_matches('\\'), next.trim());
        }
        found.push(command(&place, &whole, false));
        ran = true;
    }
    found
}

/// Whole commands between backticks in a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    let spans = line.split('`').skip(1).step_by(2);
    spans.filter(|span| PROGRAMS.iter().any(|program| span.starts_with(program)))
}

/// Whether a command goes on in the next line.
fn open(text: &str) -> bool {
    split(text).2 || text.ends_with('\\')
}

fn command(place: &str, text: &str, inline: bool) -> Command {
    let (words, comment, _) = split(text);
    let exit = comment.split_once("exit ").and_then(|(_, rest)| {
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
    });
    let mut left_out = 0_usize;
    let mut kept = Vec::new();
    for word in words {
        let opens = word.starts_with('[');
        left_out += usize::from(opens);
        if left_out == 0 {
            kept.push(word.clone());
        }
        left_out -= usize::from(left_out > 0 && word.ends_with(']'));
    }
    let (place, comment) = (place.to_owned(), comment.trim().to_owned());
    let shown = Vec::new();
    Command { place, words: kept, comment, inline, exit: exit.unwrap_or(0), shown }
}

/// Words as a shell splits them, the comment behind them, and whether a quote is still open.
fn split(text: &str) -> (Vec<String>, String, bool) {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => return (words, rest.collect(), false),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (words, String::new(), quote.is_some())
}

#[test]
fn commands_are_taken_apart_as_a_shell_would() {
    let text = "Say `tiersim new NAME`, or\n\n    tiersim cache FILE [--unit] [--capacity N ...] --policy NAME\n\n\
                ```sh\n$ tiersim run a.ron --set 'x=(a: 1,\n  b: 2)' \\\n  -q   # exit 1: why it's so\n```\n\n\
                ```rust\ntiersim run b\n```\n";
    let found = commands("a.md", text);
    let words: Vec<String> = found.iter().map(|command| command.words.join("|")).collect();
    assert_eq!(
        words,
        [
            "tiersim|new|NAME",
            "tiersim|cache|FILE|--policy|NAME",
            "tiersim|run|a.ron|--set|x=(a: 1,\nb: 2)|-q",
        ]
    );
    assert_eq!(
        found.iter().map(|c| (c.inline, c.exit)).collect::<Vec<_>>(),
        [(true, 0), (false, 0), (false, 1)]
    );
    assert_eq!(found[2].place, "a.md:6");
    assert!(found.iter().all(|command| command.shown.is_empty()));
    let printed = "```sh\ntiersim run a\ntiersim run b\n```\n\n```text\none\n...\n```\n\n```text\ntwo\n```\n\n\
                   ```sh\ntiersim run c\n```\n\nis said otherwise:\n\n```text\nthree\n```\n";
    let shown = commands("a.md", printed).into_iter().map(|command| command.shown);
    assert_eq!(shown.collect::<Vec<_>>(), [vec![], vec!["one", "..."], vec![]]);
    assert_eq!(found[2].comment, "exit 1: why it's so");
}
