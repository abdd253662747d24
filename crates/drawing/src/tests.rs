use super::*;

fn node(label: &str, rank: usize, lane: usize) -> Node {
    let (label, detail) = (label.to_owned(), format!("{label} in full"));
    Node { label, detail, rank, lane, role: Role::Plain, emphasis: Emphasis::Normal }
}

fn crowd() -> Drawing {
    let mut nodes = vec![node("start", 0, 0)];
    nodes.extend((0..25).map(|count| node(&format!("v{count:02}"), 1, 1)));
    let edges =
        (1..26).map(|to| Edge { from: 0, to, emphasis: Emphasis::Normal, label: String::new() });
    Drawing {
        title: "A & B <\"C\">".into(),
        lanes: vec!["one".into(), "two".into()],
        nodes,
        edges: edges.collect(),
    }
}

#[test]
fn text_cannot_break_out_of_its_place() {
    let mut drawing = crowd();
    drawing.nodes[0].label = "</text><script>\"x\"\\".into();
    drawing.edges[0].label = "a\"] end | b".into();
    let svg = drawing.svg();
    assert!(
        !svg.contains("<script>") && svg.contains("&lt;/text&gt;&lt;script&gt;&quot;x&quot;\\")
    );
    assert!(svg.contains("<title>A &amp; B &lt;&quot;C&quot;&gt;</title>"));
    let dot = drawing.dot();
    assert!(dot.contains(r#"n0 [label="</text><script>\"x\"\\","#), "{dot}");
    let mermaid = drawing.mermaid();
    assert!(mermaid.contains(r#"n0("#) && !mermaid.contains("<script>"), "{mermaid}");
    assert!(mermaid.contains("a#34;#93; end #124; b"), "{mermaid}");
}

#[test]
fn a_crowd_gets_a_box_and_one_arrow() {
    let svg = crowd().svg();
    assert_eq!(svg.matches("class=\"box\"").count(), 1);
    assert_eq!(svg.matches("marker-end").count(), 1);
    assert_eq!(svg.matches("<g>").count(), 26);
    // Graphviz and Mermaid lay out for themselves.
    assert_eq!(crowd().dot().matches("->").count(), 25);
    assert_eq!(crowd().mermaid().matches("-->").count(), 25);
}

/// Numbers of an attribute, in order.
fn numbers(svg: &str, class: &str, attribute: &str) -> Vec<i64> {
    svg.split('<')
        .filter(|tag| tag.contains(&format!("class=\"{class}\"")))
        .map(|tag| {
            let rest = tag.split_once(&format!(" {attribute}=\"")).unwrap().1;
            rest.split_once('"').unwrap().0.parse().unwrap()
        })
        .collect()
}

#[test]
fn nothing_lies_on_anything_else_and_all_is_inside() {
    let svg = crowd().svg();
    let [x, y, width, height] =
        ["x", "y", "width", "height"].map(|attribute| numbers(&svg, "chip", attribute));
    let size = |attribute: &str| -> i64 {
        let rest = svg.split_once(&format!(" {attribute}=\"")).unwrap().1;
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    assert_eq!(x.len(), 26);
    for a in 0..x.len() {
        assert!(x[a] >= 0 && x[a] + width[a] <= size("width"));
        assert!(y[a] >= 0 && y[a] + height[a] <= size("height"));
        for b in 0..a {
            let apart = x[a] + width[a] <= x[b] || x[b] + width[b] <= x[a];
            assert!(apart || y[a] + height[a] <= y[b] || y[b] + height[b] <= y[a], "{a} on {b}");
        }
    }
}

#[test]
fn words_beside_an_arrow_have_room_between_the_columns() {
    let words = "AVeryLongNameOfARiskThatSomebodyThoughtOf";
    let edge = Edge { from: 0, to: 1, emphasis: Emphasis::Warning, label: words.into() };
    let nodes = vec![node("a", 0, 0), node("b", 1, 0)];
    let svg = Drawing { title: "t".into(), lanes: vec![], nodes, edges: vec![edge] }.svg();
    let (x, width) = (numbers(&svg, "chip", "x"), numbers(&svg, "chip", "width"));
    assert!(x[1] - (x[0] + width[0]) > words.len() as i64 * 7);
}

#[test]
fn an_empty_drawing_is_still_one() {
    let empty = Drawing::default();
    assert!(empty.svg().ends_with("</svg>\n"));
    assert!(empty.dot().ends_with("}\n"));
}
