use proptest::prelude::*;

use super::*;

/// A reply as a tree, which determines its bytes, its size and its depth.
#[derive(Clone, Debug)]
enum Tree {
    Line(u8, Vec<u8>),
    Text(u8, Vec<u8>),
    Null(u8),
    Many(u8, Vec<Tree>),
}

impl Tree {
    fn encoded(&self) -> Vec<u8> {
        match self {
            Self::Line(kind, text) => [&[*kind], &text[..], b"\r\n"].concat(),
            Self::Text(kind, text) => {
                [&[*kind], text.len().to_string().as_bytes(), b"\r\n", text, b"\r\n"].concat()
            }
            Self::Null(kind) => [&[*kind], &b"-1\r\n"[..]].concat(),
            Self::Many(kind, elements) => {
                let count = if *kind == b'%' { elements.len() / 2 } else { elements.len() };
                let head = [&[*kind], count.to_string().as_bytes(), b"\r\n"].concat();
                elements.iter().fold(head, |bytes, element| [bytes, element.encoded()].concat())
            }
        }
    }

    fn depth(&self) -> usize {
        match self {
            Self::Many(_, elements) if !elements.is_empty() => {
                1 + elements.iter().map(Self::depth).max().unwrap_or(0)
            }
            _ => 0,
        }
    }
}

/// Generates trees of every type. Some are too deep.
fn trees() -> impl Strategy<Value = Tree> {
    let line = prop::collection::vec(any::<u8>().prop_filter("no line end", |byte| *byte != b'\n'), 0..20);
    let leaf = prop_oneof![
        (prop::sample::select(b"+-:_,#(".to_vec()), line).prop_map(|(kind, text)| Tree::Line(kind, text)),
        (prop::sample::select(b"$!=".to_vec()), prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(kind, text)| Tree::Text(kind, text)),
        prop::sample::select(b"$*".to_vec()).prop_map(Tree::Null),
    ];
    leaf.prop_recursive(12, 100, 5, |element| {
        (prop::sample::select(b"*~>%".to_vec()), prop::collection::vec(element, 0..5)).prop_map(
            |(kind, mut elements)| {
                if kind == b'%' && elements.len() % 2 == 1 {
                    elements.pop();
                }
                Tree::Many(kind, elements)
            },
        )
    })
}

/// Scans `bytes` in pieces of these sizes. Returns the reported positions after complete replies.
fn scanned(bytes: &[u8], pieces: &[usize]) -> Result<Vec<usize>, Violation> {
    let (mut scanner, mut position, mut ends) = (Scanner::new(), 0, Vec::new());
    let mut pieces = pieces.iter().copied().cycle();
    while position < bytes.len() {
        let end = bytes.len().min(position + pieces.next().unwrap_or(1));
        match scanner.scan(&bytes[position..end])? {
            0 => {}
            complete => ends.push(position + complete),
        }
        position = end;
    }
    Ok(ends)
}

proptest! {
    #[test]
    fn replies_are_measured_for_any_split(
        replies in prop::collection::vec(trees(), 1..5),
        pieces in prop::collection::vec(1_usize..50, 1..5),
    ) {
        let bytes: Vec<u8> = replies.iter().flat_map(Tree::encoded).collect();
        let deep = replies.iter().any(|reply| reply.depth() > MAX_REPLY_DEPTH);
        let mut ends: Vec<usize> = Vec::new();
        for reply in &replies {
            ends.push(ends.last().unwrap_or(&0) + reply.encoded().len());
        }
        for (pieces, all) in [(&pieces[..], false), (&[1][..], true), (&[usize::MAX][..], false)] {
            let outcome = scanned(&bytes, pieces);
            if deep {
                prop_assert_eq!(Err(Violation::TooDeep), outcome);
                continue;
            }
            let found = outcome.unwrap();
            // Scanned byte by byte, each end is reported. In larger pieces, only the last end within each piece is.
            prop_assert_eq!(Some(&bytes.len()), found.last());
            prop_assert!(found.iter().all(|end| ends.contains(end)));
            if all {
                prop_assert_eq!(&ends, &found);
            }
        }
    }

    #[test]
    fn a_reply_is_incomplete_before_its_last_byte(reply in trees()) {
        prop_assume!(reply.depth() <= MAX_REPLY_DEPTH);
        let bytes = reply.encoded();
        prop_assert_eq!(Ok(0), Scanner::new().scan(&bytes[..bytes.len() - 1]));
    }

    #[test]
    fn any_bytes_are_measured_or_rejected(
        bytes in prop::collection::vec(prop::sample::select(b"+-:_,#($!=*~>%|0123-?\r\nH".to_vec()), 0..200),
        pieces in prop::collection::vec(1_usize..9, 1..4),
    ) {
        // The outcome does not depend on the split.
        prop_assert_eq!(scanned(&bytes, &[1]).err(), scanned(&bytes, &pieces).err());
    }
}

fn endless(start: &str, rest: &str) -> Violation {
    let (mut scanner, mut sent) = (Scanner::new(), 0);
    let mut next = start.as_bytes().to_vec();
    loop {
        match scanner.scan(&next) {
            Err(violation) => return violation,
            Ok(complete) => assert_eq!(0, complete, "an endless reply is complete"),
        }
        sent += next.len();
        assert!(sent <= MAX_REPLY_BYTES, "{start:?}, {rest:?}: {sent} bytes were accepted");
        next = rest.as_bytes().to_vec();
    }
}

#[test]
fn replies_without_end_are_rejected() {
    for kind in ["*", ">", "~", "%"] {
        assert_eq!(Violation::TooDeep, endless("", &format!("{kind}1\r\n")), "{kind}");
        assert_eq!(Violation::TooLarge, endless(&format!("{kind}1000000000\r\n"), ":1\r\n"), "{kind}");
        assert_eq!(
            Violation::TooLarge,
            endless(&format!("{kind}349000\r\n"), "$10\r\n0123456789\r\n"),
            "{kind}"
        );
    }
    assert_eq!(Violation::TooLarge, endless("$1048600\r\n", "x"));
    assert_eq!(Violation::TooLarge, endless("$18446744073709551617\r\n", "x"));
    assert_eq!(Violation::TooLarge, endless("+", "x"));
    assert_eq!(Violation::TooLarge, endless("*2\r\n+", "\r"));
    assert_eq!(Violation::TooLarge, endless(":", "1"));
}

#[test]
fn the_largest_and_the_deepest_reply_are_accepted() {
    let head = "$1048564\r\n";
    let body = "x".repeat(MAX_REPLY_BYTES - head.len() - 2);
    let largest = format!("{head}{body}\r\n");
    assert_eq!(MAX_REPLY_BYTES, largest.len());
    let mut scanner = Scanner::new();
    for _ in 0..2 {
        assert_eq!(Ok(largest.len()), scanner.scan(largest.as_bytes()));
    }
    let larger = format!("$1048565\r\n{body}x\r\n");
    assert_eq!(Err(Violation::TooLarge), scanner.scan(larger.as_bytes()));

    let deepest = format!("{}:1\r\n", "*1\r\n".repeat(MAX_REPLY_DEPTH));
    assert_eq!(Ok(deepest.len()), Scanner::new().scan(deepest.as_bytes()));
    assert_eq!(Err(Violation::TooDeep), Scanner::new().scan(format!("*1\r\n{deepest}").as_bytes()));
}

#[test]
fn replies_that_decoders_read_differently_are_rejected() {
    for bytes in [
        "|1\r\n",
        "HELLO 3\r\n",
        "HTTP/1.1 200 OK\r\n",
        "$?\r\n",
        "*?\r\n",
        "%?\r\n",
        ";4\r\n",
        ".\r\n",
        "$-2\r\n",
        "$-1x",
        "$-1\rx",
        "%-1\r\n",
        "~-1\r\n",
        ">-1\r\n",
        "!-1\r\n",
        "=-1\r\n",
        "$+1\r\n",
        "$ 1\r\n",
        "$\r\n",
        "*1 \r\n",
        "*1\r*",
        "*1\n",
    ] {
        assert_eq!(Err(Violation::Malformed), Scanner::new().scan(bytes.as_bytes()), "{bytes:?}");
    }
}

#[test]
fn null_lengths_can_be_rejected() {
    let mut scanner = Scanner::new();
    assert_eq!(Ok(10), scanner.scan(b"$-1\r\n*-1\r\n"));
    scanner.accept_null_lengths(false);
    assert_eq!(Ok(3), scanner.scan(b"_\r\n"));
    assert_eq!(Err(Violation::Malformed), scanner.scan(b"*-1\r\n"));
}
