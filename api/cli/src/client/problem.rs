//! Shows a problem document of the server (RFC 9457) as text.

use crate::output::{sanitize, sanitize_lines};
use serde_json::Value;

/// Returns the detail, the code and the remedy of a problem. A detail of several lines is one error a line, indented below the title.
pub(super) fn text(problem: &Value) -> String {
    let text_of = |name: &str| problem.get(name).and_then(Value::as_str).unwrap_or_default();
    let (code, remedy) = (sanitize(text_of("code")), sanitize(text_of("remedy")));
    let detail = sanitize_lines(text_of("detail"));
    let mut text = match detail.as_slice() {
        [] | [_] => format!("{} ({code})", detail.concat()),
        errors => format!("{} ({code})\n  {}", sanitize(text_of("title")), errors.join("\n  ")),
    };
    if !remedy.is_empty() {
        text.push_str(&format!("\nwhat to do: {remedy}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_detail_of_one_line_is_followed_by_its_code_and_remedy() {
        let problem =
            json!({ "detail": "gpus: 0 is not allowed", "code": "request.invalid", "remedy": "ask for 1" });
        assert_eq!(text(&problem), "gpus: 0 is not allowed (request.invalid)\nwhat to do: ask for 1");
    }

    #[test]
    fn each_error_of_a_document_is_on_its_own_sanitised_line() {
        let problem = json!({
            "title": "The document is not valid", "code": "request.invalid", "remedy": "correct the fields",
            "detail": "tenant.name: the field is missing\ntenant.sla: the\u{1b}[2K field is missing\n",
        });
        assert_eq!(
            text(&problem),
            "The document is not valid (request.invalid)\n  tenant.name: the field is missing\n  \
             tenant.sla: the\\u{1b}[2K field is missing\nwhat to do: correct the fields"
        );
    }
}
