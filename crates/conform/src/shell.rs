//! As much of a shell as scripts set hosts up with: commands of words, quotes, comments, and arithmetic of products.

/// What the packetdrill project's `defaults.sh` sets, where a script asks for it and it is not at hand.
pub(crate) const DEFAULTS: &str = "\
sysctl net.ipv4.tcp_rmem='4096 540000 15728640'
sysctl net.ipv4.tcp_timestamps=1 net.ipv4.tcp_sack=1 net.ipv4.tcp_dsack=1 net.ipv4.tcp_fack=0 net.ipv4.tcp_frto=2
sysctl net.ipv4.tcp_reordering=3 net.ipv4.tcp_congestion_control=cubic net.ipv4.tcp_slow_start_after_idle=0
sysctl net.ipv4.tcp_early_retrans=4 net.ipv4.tcp_recovery=1 net.ipv4.tcp_ecn=0
";

/// The commands of a text, each with at least one word. Redirections are left out.
pub(crate) fn commands(text: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let (mut words, mut word, mut begun, mut quote) = (Vec::new(), String::new(), false, None);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None | Some('"'), '$') if letters.peek() == Some(&'(') => {
                word.push_str(&substituted(&mut letters));
                begun = true;
            }
            (None | Some('"'), '\\') => match letters.next() {
                Some('\n') | None => {}
                Some(next) => word.push(next),
            },
            (None, '"' | '\'') => {
                quote = Some(letter);
                begun = true;
            }
            (None, '#') if !begun => while letters.next_if(|letter| *letter != '\n').is_some() {},
            (None, _) if letter.is_whitespace() || letter == ';' || letter == '&' || letter == '|' => {
                if begun {
                    words.push(std::mem::take(&mut word));
                    begun = false;
                }
                if letter != ' ' && letter != '\t' {
                    commands.push(std::mem::take(&mut words));
                }
            }
            _ => {
                word.push(letter);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    commands.push(words);
    for words in &mut commands {
        let redirected =
            words.iter().position(|word| word.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('>'));
        words.truncate(redirected.unwrap_or(words.len()));
    }
    // What `&` of a redirection such as `2>&1` leaves behind is no command.
    commands.retain(|words| words.first().is_some_and(|word| !word.is_empty() && word != "1"));
    commands
}

/// What stands in for `$((...))`, of which the dollar has been read: a product of numbers, or nothing.
fn substituted(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let (mut depth, mut inner) = (0_u32, String::new());
    for letter in letters.by_ref() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => inner.push(letter),
        }
        if depth == 0 {
            break;
        }
    }
    let product = inner.split('*').try_fold(1_u64, |product, factor| {
        factor.trim().parse::<u64>().ok().and_then(|factor| product.checked_mul(factor))
    });
    product.map_or_else(String::new, |product| product.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_words_with_quotes_comments_and_products() {
        let text =
            "# first\nsysctl -q a.b=\"1 2 $((15*1024*1024))\" c='d e' > /dev/null 2>&1 # more\nx;y && z \\\n w\n\n";
        let expected = [vec!["sysctl", "-q", "a.b=1 2 15728640", "c=d e"], vec!["x"], vec!["y"], vec!["z", "w"]];
        assert_eq!(commands(text), expected);
        assert_eq!(commands("echo $(date) $((x))"), [["echo", "", ""]]);
        assert_eq!(commands(""), Vec::<Vec<String>>::new());
        assert_eq!(commands("\"open"), [["open"]]);
    }
}
