//! Enums whose variants have words: in files, in results, on the command line.

/// Declares enums with a word behind each variant. `ALL` lists the variants in the order in which
/// they stand and `WORDS` their words, `word` says that of one, and `from_word` finds the one that
/// has a word.
///
/// Each variant and its word stand in one place, so that no list can lack one.
#[macro_export]
macro_rules! words {
    ($($(#[$of_all:meta])* $vis:vis enum $name:ident {
        $($(#[$of_one:meta])* $variant:ident = $word:literal,)+
    })+) => {$(
        $(#[$of_all])*
        $vis enum $name {
            $($(#[$of_one])* $variant,)+
        }

        impl $name {
            /// All of them, in the order of reports.
            pub const ALL: [$name; $name::WORDS.len()] = [$($name::$variant),+];

            /// Their words, in the same order.
            pub const WORDS: &[&str] = &[$($word),+];

            /// Its word.
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }

            /// The one that `word` names.
            pub fn from_word(word: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|one| one.word() == word)
            }
        }
    )+};
}
