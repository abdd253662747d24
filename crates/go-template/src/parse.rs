//! From the text of a template to its trees: the text itself and what it defines.

mod literal;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::error::{Error, Frame, Reason, TemplatePosition};
use crate::function::Functions;
use crate::lex::{self, Kind, Token};
use crate::node::{
    Branch, Command, Node, Operand, OperandKind, Pipe, Source, Span, Tree, is_empty,
};
use crate::value::Value;
use literal::{number, string};

/// How deep blocks and parentheses may be nested. Evaluation recurses as deep.
const MAX_DEPTH: usize = 100;

/// What a text consists of.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) main: Rc<Tree>,
    /// Templates that the text defines, by name.
    pub(crate) defined: BTreeMap<Rc<str>, Rc<Tree>>,
}

pub(crate) fn parse(name: &str, text: &str, functions: &Functions) -> Result<Parsed, Box<Error>> {
    let source = Rc::new(Source { name: Rc::from(name), text: Rc::from(text) });
    let tokens =
        lex::tokens(text).map_err(|error| syntax_error(&source, error.at, error.message))?;
    let mut parser = Parser {
        source: source.clone(),
        functions,
        tokens,
        at: 0,
        variables: vec!["$".to_owned()],
        defined: BTreeMap::new(),
        depth: 0,
        ranges: 0,
    };
    let root = parser.document()?;
    let main = Rc::new(Tree { name: source.name.clone(), source, root });
    Ok(Parsed { main, defined: parser.defined })
}

fn syntax_error(source: &Source, at: usize, message: String) -> Box<Error> {
    let place = TemplatePosition { column: None, ..source.place(at) };
    let frame = Frame { place, executing: None, function: None };
    Box::new(Error { frames: vec![frame], reason: Reason::Syntax(message) })
}

/// Why a list of nodes ended.
#[derive(PartialEq, Eq)]
enum Stop {
    End,
    Else,
}

struct Parser<'a> {
    source: Rc<Source>,
    functions: &'a Functions,
    tokens: Vec<Token<'a>>,
    at: usize,
    /// Variables in scope.
    variables: Vec<String>,
    defined: BTreeMap<Rc<str>, Rc<Tree>>,
    depth: usize,
    /// Ranges around the current node.
    ranges: usize,
}

type Parse<T> = Result<T, Box<Error>>;

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn skip_space(&mut self) {
        while self.peek().kind == Kind::Space {
            self.at += 1;
        }
    }

    fn peek_word(&mut self) -> Token<'a> {
        self.skip_space();
        self.peek()
    }

    fn next_word(&mut self) -> Token<'a> {
        self.skip_space();
        self.next()
    }

    fn error<T>(&self, message: impl Into<String>) -> Parse<T> {
        let at = self.tokens[self.at.saturating_sub(1).min(self.tokens.len() - 1)].start;
        Err(syntax_error(&self.source, at, message.into()))
    }

    fn unexpected<T>(&self, token: Token<'_>, context: &str) -> Parse<T> {
        let shown = match token.kind {
            Kind::End => "EOF".to_owned(),
            Kind::Word if is_keyword(token.text) => format!("<{}>", token.text),
            _ if token.text.chars().count() > 10 => {
                format!("{:?}...", token.text.chars().take(10).collect::<String>())
            }
            _ => format!("{:?}", token.text),
        };
        let message = format!("unexpected {shown} in {context}");
        Err(syntax_error(&self.source, token.start, message))
    }

    fn enter(&mut self) -> Parse<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.error(format!("blocks or parentheses are nested deeper than {MAX_DEPTH}"));
        }
        Ok(())
    }

    /// The whole text: nodes and definitions.
    fn document(&mut self) -> Parse<Vec<Node>> {
        let mut nodes = Vec::new();
        while self.peek().kind != Kind::End {
            if self.peek().kind == Kind::LeftDelimiter {
                let start = self.at;
                self.at += 1;
                if self.next_word().is_word("define") {
                    self.definition()?;
                    continue;
                }
                self.at = start;
            }
            match self.text_or_action()? {
                Item::Node(node) => nodes.push(node),
                Item::Stop(Stop::End) => return self.error("unexpected {{end}}"),
                Item::Stop(Stop::Else) => return self.error("unexpected {{else}}"),
            }
        }
        Ok(nodes)
    }

    fn definition(&mut self) -> Parse<()> {
        let name = self.template_name("define clause")?;
        let token = self.next_word();
        if token.kind != Kind::RightDelimiter {
            return self.unexpected(token, "define clause");
        }
        self.define(name, "define clause")
    }

    /// The body of a definition, up to its end.
    fn define(&mut self, name: Rc<str>, context: &str) -> Parse<()> {
        self.enter()?;
        let outer = std::mem::replace(&mut self.variables, vec!["$".to_owned()]);
        let ranges = std::mem::take(&mut self.ranges);
        let (root, stop) = self.nodes()?;
        self.variables = outer;
        self.ranges = ranges;
        self.depth -= 1;
        if stop != Stop::End {
            return self.error(format!("unexpected {{{{else}}}} in {context}"));
        }
        if let Some(existing) = self.defined.get(&name).filter(|tree| !is_empty(&tree.root)) {
            if !is_empty(&root) {
                let name = &existing.name;
                return self.error(format!("template: multiple definition of template {name:?}"));
            }
            return Ok(());
        }
        let tree = Tree { name: name.clone(), source: self.source.clone(), root };
        self.defined.insert(name, Rc::new(tree));
        Ok(())
    }

    fn template_name(&mut self, context: &str) -> Parse<Rc<str>> {
        let token = self.next_word();
        if token.kind != Kind::String {
            return self.unexpected(token, context);
        }
        match string(token.text) {
            Some(Value::String(name)) => Ok(name),
            _ => self.error("invalid syntax"),
        }
    }

    /// Nodes up to `{{end}}` or `{{else}}`.
    fn nodes(&mut self) -> Parse<(Vec<Node>, Stop)> {
        let mut nodes = Vec::new();
        while self.peek_word().kind != Kind::End {
            match self.text_or_action()? {
                Item::Node(node) => nodes.push(node),
                Item::Stop(stop) => return Ok((nodes, stop)),
            }
        }
        let end = self.peek();
        Err(syntax_error(&self.source, end.start, "unexpected EOF".to_owned()))
    }

    fn text_or_action(&mut self) -> Parse<Item> {
        let token = self.next_word();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text(Rc::from(token.text), token.start))),
            Kind::LeftDelimiter => self.action(),
            _ => self.unexpected(token, "input"),
        }
    }

    fn action(&mut self) -> Parse<Item> {
        let token = self.peek_word();
        let keyword = if token.kind == Kind::Word { token.text } else { "" };
        if is_keyword(keyword) {
            self.at += 1;
        }
        Ok(Item::Node(match keyword {
            "if" => Node::If(self.control("if")?),
            "with" => Node::With(self.control("with")?),
            "range" => Node::Range(self.control("range")?),
            "break" | "continue" => {
                let end = self.next_word();
                if end.kind != Kind::RightDelimiter {
                    return self.unexpected(end, &format!("{{{{{keyword}}}}}"));
                }
                if self.ranges == 0 {
                    return self.error(format!("{{{{{keyword}}}}} outside {{{{range}}}}"));
                }
                if keyword == "break" { Node::Break } else { Node::Continue }
            }
            "end" => {
                let end = self.next_word();
                if end.kind != Kind::RightDelimiter {
                    return self.unexpected(end, "end");
                }
                return Ok(Item::Stop(Stop::End));
            }
            "else" => {
                let next = self.peek_word();
                // `else if` leaves its `if` to be parsed as a block of its own.
                if !next.is_word("if") && !next.is_word("with") {
                    self.at += 1;
                    if next.kind != Kind::RightDelimiter {
                        return self.unexpected(next, "else");
                    }
                }
                return Ok(Item::Stop(Stop::Else));
            }
            "template" => self.template()?,
            "block" => {
                let start = self.peek().start;
                let name = self.template_name("block clause")?;
                let pipe = self.pipeline("block clause", Kind::RightDelimiter)?;
                self.define(name.clone(), "block clause")?;
                let span = Span { start, end: pipe.span.end };
                Node::Template { name, pipe: Some(pipe), span }
            }
            "define" => return self.unexpected(token, "command"),
            _ => Node::Action(self.pipeline("command", Kind::RightDelimiter)?),
        }))
    }

    fn template(&mut self) -> Parse<Node> {
        let start = self.peek_word().start;
        let name = self.template_name("template clause")?;
        let end = self.tokens[self.at - 1].end();
        if self.peek_word().kind == Kind::RightDelimiter {
            self.at += 1;
            return Ok(Node::Template { name, pipe: None, span: Span { start, end } });
        }
        let pipe = self.pipeline("template clause", Kind::RightDelimiter)?;
        Ok(Node::Template { name, span: Span { start, end: pipe.span.end }, pipe: Some(pipe) })
    }

    fn control(&mut self, context: &str) -> Parse<Branch> {
        self.enter()?;
        let scope = self.variables.len();
        let pipe = self.pipeline(context, Kind::RightDelimiter)?;
        self.ranges += usize::from(context == "range");
        let (body, stop) = self.nodes()?;
        self.ranges -= usize::from(context == "range");
        let otherwise = if stop == Stop::End {
            Vec::new()
        } else if context == "if" && self.peek().is_word("if") {
            self.at += 1;
            vec![Node::If(self.control("if")?)]
        } else if context == "with" && self.peek().is_word("with") {
            self.at += 1;
            vec![Node::With(self.control("with")?)]
        } else {
            let (otherwise, stop) = self.nodes()?;
            if stop != Stop::End {
                return self.error("expected end; found {{else}}");
            }
            otherwise
        };
        self.variables.truncate(scope);
        self.depth -= 1;
        Ok(Branch { pipe, body, otherwise })
    }

    fn pipeline(&mut self, context: &str, end: Kind) -> Parse<Pipe> {
        let start = self.peek_word().start;
        let mut pipe = Pipe {
            variables: Vec::new(),
            assign: false,
            commands: Vec::new(),
            span: Span { start, end: start },
        };
        self.declarations(&mut pipe, context)?;
        loop {
            let token = self.peek_word();
            if token.kind == end {
                pipe.span.end = token.start;
                self.at += 1;
                break;
            }
            if !is_operand(token.kind) {
                return self.unexpected(token, context);
            }
            let command = self.command()?;
            pipe.commands.push(command);
        }
        if pipe.commands.is_empty() {
            return self.error(format!("missing value for {context}"));
        }
        for (index, command) in pipe.commands.iter().enumerate().skip(1) {
            let first = &command.operands[0].kind;
            if matches!(first, OperandKind::Nil | OperandKind::Dot | OperandKind::Constant(_)) {
                let stage = index + 1;
                return self.error(format!("non executable command in pipeline stage {stage}"));
            }
        }
        Ok(pipe)
    }

    fn declarations(&mut self, pipe: &mut Pipe, context: &str) -> Parse<()> {
        loop {
            let variable = self.peek_word();
            if variable.kind != Kind::Variable {
                return Ok(());
            }
            let before = self.at;
            self.at += 1;
            let next = self.peek_word();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    self.at += 1;
                    pipe.assign = next.kind == Kind::Assign;
                    self.declare(pipe, variable.text);
                    return Ok(());
                }
                Kind::Comma => {
                    self.at += 1;
                    self.declare(pipe, variable.text);
                    if context != "range" || pipe.variables.len() >= 2 {
                        return self.error(format!("too many declarations in {context}"));
                    }
                    let follows = self.peek_word().kind;
                    if !matches!(
                        follows,
                        Kind::Variable | Kind::RightDelimiter | Kind::RightParenthesis
                    ) {
                        return self.error("range can only initialize variables");
                    }
                }
                _ => {
                    self.at = before;
                    return Ok(());
                }
            }
        }
    }

    fn declare(&mut self, pipe: &mut Pipe, name: &str) {
        pipe.variables.push(Rc::from(name));
        self.variables.push(name.to_owned());
    }

    fn command(&mut self) -> Parse<Command> {
        let start = self.peek_word().start;
        let mut operands = Vec::new();
        let mut end = start;
        loop {
            self.skip_space();
            if let Some(operand) = self.operand()? {
                end = operand.span.end;
                operands.push(operand);
            }
            let token = self.next();
            match token.kind {
                Kind::Space => {}
                Kind::RightDelimiter | Kind::RightParenthesis => {
                    self.at -= 1;
                    break;
                }
                Kind::Pipe => break,
                _ => return self.unexpected(token, "operand"),
            }
        }
        if operands.is_empty() {
            return self.error("empty command");
        }
        Ok(Command { operands, span: Span { start, end } })
    }

    /// A term and the fields behind it.
    fn operand(&mut self) -> Parse<Option<Operand>> {
        let Some(mut operand) = self.term()? else { return Ok(None) };
        let mut fields = Vec::new();
        while self.peek().kind == Kind::Field {
            let token = self.next();
            fields.push(Rc::from(&token.text[1..]));
            operand.span.end = token.end();
        }
        if fields.is_empty() {
            return Ok(Some(operand));
        }
        let span = operand.span;
        let kind = match operand.kind {
            OperandKind::Field(mut names) => {
                names.extend(fields);
                OperandKind::Field(names)
            }
            OperandKind::Variable(name, mut names) => {
                names.extend(fields);
                OperandKind::Variable(name, names)
            }
            OperandKind::Nil | OperandKind::Dot | OperandKind::Constant(_) => {
                let term = &self.source.text[span.start..span.end];
                return self.error(format!("unexpected . after term {term:?}"));
            }
            kind => OperandKind::Chain(Box::new(Operand { kind, span }), fields),
        };
        Ok(Some(Operand { kind, span }))
    }

    fn term(&mut self) -> Parse<Option<Operand>> {
        let token = self.next_word();
        let mut span = Span { start: token.start, end: token.end() };
        let kind = match token.kind {
            Kind::Word if token.text == "nil" => OperandKind::Nil,
            Kind::Word if !is_keyword(token.text) => match self.functions.get(token.text) {
                Some(entry) => OperandKind::Function(entry.clone()),
                None => return self.error(format!("function {:?} not defined", token.text)),
            },
            Kind::Dot => OperandKind::Dot,
            Kind::Variable => {
                if !self.variables.iter().any(|name| name == token.text) {
                    return self.error(format!("undefined variable {:?}", token.text));
                }
                OperandKind::Variable(Rc::from(token.text), Vec::new())
            }
            Kind::Field => OperandKind::Field(vec![Rc::from(&token.text[1..])]),
            Kind::Bool => OperandKind::Constant(Value::Bool(token.text == "true")),
            Kind::Number | Kind::CharacterConstant => match number(token.text) {
                Ok(value) => OperandKind::Constant(value),
                Err(message) => return self.error(message),
            },
            Kind::String => match string(token.text) {
                Some(value) => OperandKind::Constant(value),
                None => return self.error("invalid syntax"),
            },
            Kind::LeftParenthesis => {
                self.enter()?;
                let pipe = self.pipeline("parenthesized pipeline", Kind::RightParenthesis)?;
                self.depth -= 1;
                span.end = pipe.span.end + 1;
                OperandKind::Pipe(Box::new(pipe))
            }
            _ => {
                self.at -= 1;
                return Ok(None);
            }
        };
        Ok(Some(Operand { kind, span }))
    }
}

enum Item {
    Node(Node),
    Stop(Stop),
}

fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "block"
            | "break"
            | "continue"
            | "define"
            | "else"
            | "end"
            | "if"
            | "range"
            | "template"
            | "with"
    )
}

fn is_operand(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Bool
            | Kind::CharacterConstant
            | Kind::Dot
            | Kind::Field
            | Kind::Word
            | Kind::Number
            | Kind::String
            | Kind::Variable
            | Kind::LeftParenthesis
    )
}
