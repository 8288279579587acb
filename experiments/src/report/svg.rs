//! A small SVG writer: shapes, classes, text. Equal calls give equal bytes.
//!
//! Colours, fonts and dashes are the page's business: shapes carry class names only, so that one drawing serves light,
//! dark and paper. Coordinates have one decimal, which is a tenth of a pixel and hides the last bits in which
//! mathematical libraries differ. All text is escaped here; nothing else writes text into a drawing.

use std::fmt::Write;

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing under construction.
#[derive(Debug)]
pub(super) struct Svg {
    id: String,
    title: String,
    desc: String,
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    /// An empty drawing. `id` is unique in the page and made of letters, digits and `-`; `title` and `desc` are what a
    /// reader hears who cannot see it.
    pub(super) fn new(id: &str, [width, height]: [f64; 2], title: &str, desc: &str) -> Self {
        Self { id: id.into(), title: title.into(), desc: desc.into(), width, height, body: String::new() }
    }

    pub(super) fn line(&mut self, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(number);
        self.push(format_args!("<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"));
    }

    pub(super) fn rect(&mut self, class: &str, at: [f64; 2], size: [f64; 2]) {
        let shape = rect_attributes(at, size);
        self.push(format_args!("<rect class=\"{class}\" {shape}/>"));
    }

    /// A rectangle that says what it is when the pointer rests on it.
    pub(super) fn rect_titled(&mut self, class: &str, at: [f64; 2], size: [f64; 2], title: &str) {
        let (shape, title) = (rect_attributes(at, size), escaped(title));
        self.push(format_args!("<rect class=\"{class}\" {shape}><title>{title}</title></rect>"));
    }

    pub(super) fn circle(&mut self, class: &str, [x, y]: [f64; 2], r: f64) {
        let [x, y, r] = [x, y, r].map(number);
        self.push(format_args!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{r}\"/>"));
    }

    /// A line through all points; nothing for fewer than two.
    pub(super) fn polyline(&mut self, class: &str, points: &[[f64; 2]]) {
        if points.len() < 2 {
            return;
        }
        let path: Vec<String> = points.iter().map(|p| format!("{},{}", number(p[0]), number(p[1]))).collect();
        self.push(format_args!("<polyline class=\"{class}\" points=\"{}\"/>", path.join(" ")));
    }

    pub(super) fn text(&mut self, class: &str, [x, y]: [f64; 2], anchor: Anchor, text: &str) {
        let [x, y] = [x, y].map(number);
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        self.push(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>{}</text>", escaped(text)));
    }

    /// The element.
    pub(super) fn finish(self) -> String {
        let [w, h] = [self.width, self.height].map(number);
        let (id, title, desc) = (self.id, escaped(&self.title), escaped(&self.desc));
        format!(
            "<svg role=\"img\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" aria-labelledby=\"{id}-t {id}-d\">\
             <title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{desc}</desc>\n{}</svg>",
            self.body
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "{element}");
    }
}

fn rect_attributes([x, y]: [f64; 2], [width, height]: [f64; 2]) -> String {
    let [x, y, width, height] = [x, y, width.max(0.0), height.max(0.0)].map(number);
    format!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"")
}

/// One decimal, none if it is 0; what is no number is 0.
fn number(value: f64) -> String {
    let value = if value.is_finite() { (value * 10.0).round() / 10.0 + 0.0 } else { 0.0 };
    // The sum above turns -0.0 into 0.0.
    format!("{value}")
}

/// Text that cannot leave its place, neither between tags nor in an attribute. Characters that XML forbids are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_have_one_decimal_and_no_minus_before_zero() {
        let found = [0.04, -0.04, 12.0, 12.25, -3.13, f64::NAN, f64::INFINITY].map(number);
        assert_eq!(found, ["0", "0", "12", "12.3", "-3.1", "0", "0"]);
    }

    #[test]
    fn a_drawing_has_a_role_a_title_and_a_description() {
        let mut svg = Svg::new("c1", [10.0, 5.5], "a < b", "\"d\"");
        svg.text("t", [1.0, 2.0], Anchor::End, "<script>");
        svg.polyline("l", &[[0.0, 0.0]]);
        assert_eq!(
            svg.finish(),
            "<svg role=\"img\" viewBox=\"0 0 10 5.5\" width=\"10\" height=\"5.5\" aria-labelledby=\"c1-t c1-d\">\
             <title id=\"c1-t\">a &lt; b</title><desc id=\"c1-d\">&quot;d&quot;</desc>\n\
             <text class=\"t\" x=\"1\" y=\"2\" text-anchor=\"end\">&lt;script&gt;</text>\n</svg>"
        );
    }

    proptest! {
        #[test]
        fn escaped_text_is_xml_that_reads_back(text in "[^\\p{Cc}\u{fffe}\u{ffff}]{0,40}") {
            let document = format!("<a b=\"{0}\">{0}</a>", escaped(&text));
            let read = roxmltree::Document::parse(&document).unwrap();
            prop_assert_eq!(read.root_element().text().unwrap_or_default(), &text);
        }

        #[test]
        fn any_text_is_xml(text in any::<String>()) {
            let document = format!("<a>{}</a>", escaped(&text));
            prop_assert!(roxmltree::Document::parse(&document).is_ok());
        }
    }
}
