//! Detects the column separator of a CSV file: a comma, a semicolon or a tab.

/// Returns the column separator of a CSV file, from its header line.
#[must_use]
pub fn delimiter_of(text: &str) -> u8 {
    let header = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let count = |delimiter: char| header.chars().filter(|c| *c == delimiter).count();
    // If several occur, the first in this order wins: a name in a header contains a comma only in quotes.
    let others = [(b';', count(';')), (b'\t', count('\t'))];
    let most = others.into_iter().filter(|(_, times)| *times > count(',')).max_by_key(|(_, times)| *times);
    most.map_or(b',', |(delimiter, _)| delimiter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_determines_the_delimiter() {
        assert_eq!(delimiter_of("a,b,c\n1;2;3"), b',');
        assert_eq!(delimiter_of("a;b;c\n1,5;2;3"), b';');
        assert_eq!(delimiter_of("\n a\tb\tc\n"), b'\t');
        assert_eq!(delimiter_of("alone"), b',');
    }
}
