"""SQL text → sqlglot's tree of one statement, and errors that point into the text.

sqlglot parses DuckDB's dialect; nothing else of it is used. It forgives some texts that mean nothing (`selec
a` is an expression with an alias); what is not a statement when it is done is a syntax error here.
"""

from __future__ import annotations

import re
import typing
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenizerCore, TokenType

from querymode._call import check
from querymode._secrets import hide
from querymode.errors import QueryModeError, error
from querymode.sql.lift import lift
from querymode.sql.scan import DOLLARS, after_blanks, unclosed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from querymode.expr.value_list import ValueList

#: What sqlglot may look at as an interval's number: it takes time as the square of a longer one.
_NUMBER = re.compile(r"\s{0,9}+[+-]?[\d.]{1,500}+\s{0,9}+", re.ASCII)
#: Functions whose arguments have a grammar of their own.
_SPECIAL_FORMS = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")


#: What follows a column, and does not begin what INTERVAL stands in front of.
_OPERATORS = frozenset((TokenType.DASH, TokenType.PLUS, TokenType.STAR, TokenType.SLASH, TokenType.MOD))


class _Parser(DuckDBParser):
    """Functions keep the names they are called by: sqlglot would translate some of them between dialects."""

    FUNCTIONS: typing.ClassVar = {}
    #: `current_date` and its like are names, which mean columns where there are any: expressions.py decides.
    NO_PAREN_FUNCTIONS: typing.ClassVar = {}
    NO_PAREN_FUNCTION_PARSERS: typing.ClassVar = {
        **{word: DuckDBParser.NO_PAREN_FUNCTION_PARSERS[word] for word in ("ANY", "CASE", "IF", "@")},
        "MAP": lambda self: self._parse_map_or_name(),
    }
    UNARY_PARSERS: typing.ClassVar = {
        **DuckDBParser.UNARY_PARSERS,
        # It binds less than `+`, and as much as `&`.
        TokenType.TILDE: lambda self: self.expression(exp.BitwiseNot(this=self._parse_term())),
    }
    FUNCTION_PARSERS: typing.ClassVar = {
        name: rule for name, rule in DuckDBParser.FUNCTION_PARSERS.items() if name in _SPECIAL_FORMS
    }

    def _warn_unsupported(self) -> None:
        """Our error says it; sqlglot's warning would stand on stderr beside it."""

    def _parse_map_or_name(self) -> exp.Expr | None:
        """`map` alone is a column."""
        if self._curr.token_type in (TokenType.L_BRACE, TokenType.L_PAREN):
            return self._parse_map()
        self._retreat(self._index - 1)
        return None

    def _parse_type(
        self, parse_interval: bool = True, fallback_to_identifier: bool = False
    ) -> exp.Expr | None:
        """`DATE '2024-01-31'::VARCHAR` casts the date; sqlglot would make a date of the cast text."""
        start = self._index
        if self._curr.token_type in self.TYPE_TOKENS and self._curr.token_type != TokenType.INTERVAL:
            data_type = self._parse_types(check_func=True, allow_identifiers=False)
            if isinstance(data_type, exp.DataType) and self._curr.token_type == TokenType.STRING:
                value = self.expression(exp.Cast(this=self._parse_primary(), to=data_type))
                return self._parse_column_ops(value)
            self._retreat(start)
        return super()._parse_type(parse_interval, fallback_to_identifier)

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> exp.Add | exp.Interval | None:
        """`INTERVAL '8' DAY + '2000-01-01'::DATE` adds a date; sqlglot would make an interval of its text."""
        start = self._index
        if not self._match(TokenType.INTERVAL) and require_interval:
            return None
        if self._curr.token_type in _OPERATORS:  # a column of that name
            self._retreat(start)
            return None
        is_text = self._curr.token_type == TokenType.STRING
        this = self._parse_primary() if is_text else self._parse_term()
        is_name = isinstance(this, exp.Column) and not this.table and not this.this.quoted
        unit = self._curr.text.upper() if self._curr else None
        if this is None or (is_name and unit is not None and unit not in self.dialect.VALID_INTERVAL_UNITS):
            self._retreat(start)
            return None
        return self._parse_interval_span(this, parse_function_unit)

    def _parse_interval_span(self, this: exp.Expr, parse_function_unit: bool = True) -> exp.Interval:
        """`INTERVAL '2 days ago'` keeps its text; sqlglot would forget what follows the first unit."""
        if isinstance(this, exp.Literal) and this.is_string and not _NUMBER.fullmatch(this.this):
            return self.expression(exp.Interval(this=this))
        return super()._parse_interval_span(this, parse_function_unit)


class _PatientParser(_Parser):
    """For long texts: asks for the time now and then."""

    def _advance(self, times: int = 1) -> None:
        super()._advance(times)
        if self._index % _STRIDE == 0:
            check()


class _Scanner(TokenizerCore):
    """A dollar begins a text only where `$tag$` does; sqlglot would look for the end of one in `$1,$2`."""

    __slots__ = ()

    def _scan_string(self, start: str) -> bool:
        if start == "$" and DOLLARS.match(self.sql, self._current - 1) is None:
            self._add(self.heredoc_string_alternative)
            return True
        return super()._scan_string(start)


class _PatientScanner(_Scanner):
    """For long texts, however many characters a token has: asks for the time now and then."""

    __slots__ = ("_steps",)

    def tokenize(self, sql: str) -> list[Token]:
        self._steps = 0
        return super().tokenize(sql)

    def _advance(self, i: int = 1, alnum: bool = False) -> None:
        super()._advance(i, alnum)
        self._steps += 1
        if self._steps % _STRIDE == 0:
            check()


class _Tokenizer(DuckDB.Tokenizer):
    SCANNER: typing.ClassVar[type[_Scanner]] = _Scanner

    def _init_core(self) -> TokenizerCore:
        core = super()._init_core()
        ours = object.__new__(self.SCANNER)
        for name in TokenizerCore.__slots__:
            setattr(ours, name, getattr(core, name))
        return ours


class _PatientTokenizer(_Tokenizer):
    SCANNER = _PatientScanner


class _Dialect(DuckDB):
    Parser = _Parser
    Tokenizer = _Tokenizer


class _PatientDialect(DuckDB):
    Parser = _PatientParser
    Tokenizer = _PatientTokenizer


_DIALECT = _Dialect()
_PATIENT_DIALECT = _PatientDialect()
#: Texts of more characters than these are read with patience.
_LONG_TEXT = 1 << 14
#: Steps of a parser between two looks at the clock: some 5 ms.
_STRIDE = 1024
_QUERIES = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)
_EXPLAIN = re.compile(r"explain\b", re.IGNORECASE)
_ANALYZE = re.compile(r"analy[sz]e\b", re.IGNORECASE)


class Statement:
    """One parsed statement. `explain`: "", "explain" or "analyze" in front of the query in `tree`."""

    __slots__ = ("explain", "lists", "may_have_parameters", "text", "tree")

    def __init__(
        self,
        text: Text,
        tree: exp.Expr,
        explain: str,
        may_have_parameters: bool,
        lists: Mapping[int, ValueList],
    ) -> None:
        self.text = text
        self.tree = tree
        self.explain = explain
        #: Whether a sign that parameters begin with stands in the text; most have none, and need no search.
        self.may_have_parameters = may_have_parameters
        #: Long lists of IN, by the place of the literal that stands for each.
        self.lists = lists

    def close(self) -> None:
        """The tree of a long text is freed with its last user; the collector would take three times as long.

        Its nodes know the ones they are parts of, and are kept by that.
        """
        if len(self.text.sql) <= _LONG_TEXT:
            return
        nodes: list[exp.Expr] = [self.tree]
        while nodes:
            node = nodes.pop()
            node.parent = None
            for part in node.args.values():
                if isinstance(part, exp.Expr):
                    nodes.append(part)
                elif isinstance(part, list):
                    nodes += [item for item in part if isinstance(item, exp.Expr)]


class Text:
    """The SQL text, for errors that show where they are."""

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def error(
        self, code: str, message: str, node: exp.Expr | None, *, column: str | None = None
    ) -> QueryModeError:
        """An error about a part of the text."""
        start, end = span_of(node) if node is not None else (None, None)
        return self.error_at(code, message, start, end, column=column)

    def error_at(
        self, code: str, message: str, start: int | None, end: int | None = None, *, column: str | None = None
    ) -> QueryModeError:
        if start is None:
            return error(code, message, column=column)
        return error(code, f"{message}\n{self.excerpt(start, end)}", column=column, offset=start)

    def until(self, token: Token) -> Text:
        """As far as a word: CREATE SECRET, ATTACH and SET have passwords behind it."""
        return Text(self.sql[: token.end + 1])

    def not_supported(self, what: str, node: exp.Expr | None) -> QueryModeError:
        return self.error("NOT_SUPPORTED", f"{what} is not supported yet", node)

    def located(self, failure: QueryModeError, node: exp.Expr | None) -> QueryModeError:
        """The same error with its place, unless it has one."""
        if failure.offset is not None or node is None:
            return failure
        start, end = span_of(node)
        if start is None:
            return failure
        message = f"{failure.message}\n{self.excerpt(start, end)}"
        return error(failure.code, message, table=failure.table, column=failure.column, offset=start)

    def excerpt(self, start: int, end: int | None) -> str:
        """`line 2, column 8:`, that line, and carets below the place."""
        sql = hide(self.sql, same_size=True)
        start = min(start, len(sql))
        line = sql.count("\n", 0, start) + 1
        first = sql.rfind("\n", 0, start) + 1
        last = sql.find("\n", start)
        shown = sql[first : len(sql) if last < 0 else last]
        column = start - first
        length = 1 if end is None else max(1, min(end + 1, first + len(shown)) - start)
        shown, column = _window(shown, column)
        length = min(length, max(1, len(shown) - column))
        # A tab stays a tab, so that the carets stand where the text does.
        margin = "".join("\t" if letter == "\t" else " " for letter in shown[:column])
        return f"line {line}, column {start - first + 1}:\n  {shown}\n  {margin}{'^' * length}"


_WINDOW = 100


def _window(line: str, column: int) -> tuple[str, int]:
    """What of a long line is shown around a column."""
    if len(line) <= _WINDOW:
        return line, column
    first = max(0, min(column - _WINDOW // 2, len(line) - _WINDOW))
    shown = line[first : first + _WINDOW]
    if first > 0:
        shown = "…" + shown[1:]
    if first + _WINDOW < len(line):
        shown = shown[:-1] + "…"
    return shown, column - first


def span_of(node: exp.Expr) -> tuple[int | None, int | None]:
    """Where a part of the tree stands in the text, as far as its names and constants say."""
    start: int | None = None
    end: int | None = None
    for part in node.walk():
        place = part._meta
        if place and "start" in place:
            start = place["start"] if start is None else min(start, place["start"])
            end = place["end"] if end is None else max(end, place["end"])
    if start is None and node.parent is not None:
        return span_of(node.parent)
    return start, end


#: Python itself does not read longer ones.
_NUMBER_SIZE_MAX = 4000
_OPEN_JOINS_MAX = 8
_JOINS_WITHOUT_ON = (TokenType.CROSS, TokenType.NATURAL)


def parse(sql: str) -> Statement:
    """The one statement of a text."""
    if not isinstance(sql, str):
        raise error("SQL_SYNTAX", f"sql takes a text, not {type(sql).__name__}")
    text = Text(sql)
    word, position = _explained(sql)
    if word:
        # Blanks of the same length: places in the text stay what they are.
        sql = " " * position + sql[position:]
    sql, lists = lift(sql)
    dialect: DuckDB = _DIALECT
    if len(sql) > _LONG_TEXT:
        dialect = _PATIENT_DIALECT
    tokens = _tokens(sql, text, dialect)
    kinds = {token.token_type for token in tokens}
    if TokenType.PLACEHOLDER in kinds:
        tokens = _number_parameters(tokens)
    tree = _tree(tokens, kinds, sql, text, dialect)
    return Statement(text, tree, word, not kinds.isdisjoint(_Parser.PLACEHOLDER_PARSERS), lists)


def _explained(sql: str) -> tuple[str, int]:
    """What is asked of the query ("", "explain" or "analyze"), and where it begins."""
    explain = _EXPLAIN.match(sql, after_blanks(sql, 0))
    if explain is None:
        return "", 0
    position = after_blanks(sql, explain.end())
    if position == len(sql):  # a word alone, which the parser refuses
        return "", 0
    has_list = sql.startswith("(", position)
    analyze = _ANALYZE.match(sql, after_blanks(sql, position + 1) if has_list else position)
    if analyze is None:
        return "explain", explain.end()
    end = after_blanks(sql, analyze.end())
    if not has_list:
        return ("analyze", analyze.end()) if end < len(sql) else ("", 0)
    return ("analyze", end + 1) if sql.startswith(")", end) else ("explain", explain.end())


def _tokens(sql: str, text: Text, dialect: DuckDB) -> list[Token]:
    try:
        tokens = dialect.tokenize(sql)
    except TokenError as failure:
        if isinstance(failure.__cause__, QueryModeError):  # the time is over
            raise failure.__cause__ from None
        start = unclosed(sql)
        what = "a comment is" if sql[start : start + 2] == "/*" else "a quote is"
        raise text.error_at("SQL_SYNTAX", f"{what} opened here and never closed", start) from None
    numbers = [token for token in tokens if token.token_type == TokenType.NUMBER]
    for token in numbers:
        if len(token.text) > _NUMBER_SIZE_MAX:
            raise text.error_at("SQL_SYNTAX", f"a number of {len(token.text)} digits", token.start, token.end)
    return _split_sums(tokens) if any(_SUM.fullmatch(token.text) for token in numbers) else tokens


#: A number with an exponent, a sign, and the number behind it.
_SUM = re.compile(r"([\d.]++e\d++)([+-])([\d.]++)", re.IGNORECASE | re.ASCII)
_EXPONENT = re.compile(r"e\d++", re.IGNORECASE | re.ASCII)


def _split_sums(tokens: list[Token]) -> list[Token]:
    """`1e2+3` is three tokens, which sqlglot takes for one; of `1e2+3e4` it takes `e4` for a name."""
    split: list[Token] = []
    summand = False
    for token in tokens:
        place = (token.line, token.col, token.start, token.end)
        if summand and _EXPONENT.fullmatch(token.text) and token.start == split[-1].end + 1:
            split[-1] = Token(TokenType.NUMBER, split[-1].text + token.text, *place)
            continue
        found = _SUM.fullmatch(token.text) if token.token_type == TokenType.NUMBER else None
        summand = found is not None
        if found is None:
            split.append(token)
            continue
        sign = TokenType.PLUS if found[2] == "+" else TokenType.DASH
        split.append(Token(TokenType.NUMBER, found[1], *place))
        split.append(Token(sign, found[2], *place))
        split.append(Token(TokenType.NUMBER, found[3], *place))
    return split


def _number_parameters(tokens: list[Token]) -> list[Token]:
    """`?` becomes `$1`, `$2`, … in the order of the text, which the tree does not keep."""
    count = 0
    numbered: list[Token] = []
    for token in tokens:
        if token.token_type != TokenType.PLACEHOLDER:
            numbered.append(token)
            continue
        count += 1
        place = (token.line, token.col, token.start, token.end)
        numbered.append(Token(TokenType.PARAMETER, "$", *place))
        numbered.append(Token(TokenType.NUMBER, f"?{count}", *place))
    return numbered


def _tree(tokens: list[Token], kinds: set[TokenType], sql: str, text: Text, dialect: DuckDB) -> exp.Expr:
    """`kinds`: of all tokens. Nobody looks for what is none of them."""
    if kinds <= {TokenType.SEMICOLON}:
        raise text.error_at("SQL_SYNTAX", "the text holds no statement", None)
    if TokenType.SEMICOLON in kinds:
        _refuse_second(tokens, text)
    _refuse_commands(tokens, text)
    if TokenType.COMMA in kinds:
        _refuse_commas(tokens, text)
    if TokenType.ORDER_BY in kinds:
        _refuse_order_of_nothing(tokens, text)
    _refuse_unfinished(tokens, text)
    if TokenType.JOIN in kinds:
        _refuse_open_joins(tokens, text)
    try:
        trees = dialect.parser().parse(tokens, sql)
    except ParseError as failure:
        raise _syntax_error(failure, tokens, text) from None
    except RecursionError:
        raise error("NOT_SUPPORTED", "the statement is nested too deep") from None
    tree = next((tree for tree in trees if tree is not None), None)
    if isinstance(tree, (*_QUERIES, exp.Describe, exp.Show)):
        return tree
    first = tokens[0]
    if tree is None or isinstance(tree, (exp.Alias, exp.Column, exp.Condition, exp.Identifier)):
        raise text.error_at(
            "SQL_SYNTAX", f"a statement does not begin with {first.text!r}", first.start, first.end
        )
    raise _no_query(first, text)


def _refuse_second(tokens: list[Token], text: Text) -> None:
    ended = False
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            ended = True
        elif ended:
            raise text.until(token).error_at(
                "NOT_SUPPORTED", "one statement at a time; a second one begins here", token.start
            )


#: sqlglot takes these apart badly or writes a warning to the log, so they are not given to it.
_COMMANDS = frozenset(
    [
        "call",
        "execute",
        "prepare",
        "deallocate",
        "explain",
        "vacuum",
        "checkpoint",
        "load",
        "install",
        "export",
        "import",
    ]
)


def _refuse_commands(tokens: list[Token], text: Text) -> None:
    first = tokens[0]
    if first.token_type == TokenType.COMMAND or first.text.lower() in _COMMANDS:
        raise _no_query(first, text)


def _refuse_commas(tokens: list[Token], text: Text) -> None:
    for before, token in pairwise(tokens):
        if before.token_type == token.token_type == TokenType.COMMA:
            raise text.error_at("SQL_SYNTAX", "something is missing between two commas", token.start)


def _refuse_order_of_nothing(tokens: list[Token], text: Text) -> None:
    for before, open_, token in zip(tokens, tokens[1:], tokens[2:], strict=False):
        # Not `OVER (ORDER BY`, `WITHIN GROUP (ORDER BY`, `WINDOW w AS (ORDER BY`.
        ordered = open_.token_type == TokenType.L_PAREN and token.token_type == TokenType.ORDER_BY
        if ordered and before.text.upper() not in ("OVER", "GROUP", "AS"):
            raise text.error_at("SQL_SYNTAX", _missing(open_), open_.start, open_.end)


#: Words that something must follow; sqlglot takes the last one of a text for an alias.
_UNFINISHED = frozenset(
    [
        "group",
        "order",
        "union",
        "intersect",
        "except",
        "where",
        "having",
        "on",
        "using",
        "and",
        "or",
        "not",
        "as",
        "by",
    ]
)


def _refuse_unfinished(tokens: list[Token], text: Text) -> None:
    last = next(token for token in reversed(tokens) if token.token_type != TokenType.SEMICOLON)
    if last.token_type != TokenType.IDENTIFIER and last.text.lower() in _UNFINISHED:
        raise text.error_at("SQL_SYNTAX", _missing(last), last.start, last.end)


def _refuse_open_joins(tokens: list[Token], text: Text) -> None:
    """`a JOIN b JOIN c …` without ON: with each of them the parser tries twice as many ways to read it."""
    waiting = [0]
    for before, token in pairwise([tokens[0], *tokens]):
        if token.token_type == TokenType.L_PAREN:
            waiting.append(0)
        elif token.token_type == TokenType.R_PAREN:
            del waiting[max(1, len(waiting) - 1) :]
        elif token.token_type == TokenType.SELECT:
            waiting[-1] = 0
        elif token.token_type in (TokenType.ON, TokenType.USING):
            waiting[-1] = max(0, waiting[-1] - 1)
        elif token.token_type == TokenType.JOIN and before.token_type not in _JOINS_WITHOUT_ON:
            waiting[-1] += 1
            if waiting[-1] > _OPEN_JOINS_MAX:
                raise text.error_at("SQL_SYNTAX", "joins without ON or USING", token.start, token.end)


def _no_query(first: Token, text: Text) -> QueryModeError:
    return text.until(first).error_at(
        "NOT_SUPPORTED",
        f"{first.text.upper()} is not supported: sql takes queries (SELECT, VALUES, WITH …), DESCRIBE, "
        "SHOW TABLES and EXPLAIN",
        first.start,
        first.end,
    )


def _syntax_error(failure: ParseError, tokens: list[Token], text: Text) -> QueryModeError:
    found = failure.errors[0] if failure.errors else {}
    message = str(found.get("description") or failure)
    # sqlglot's columns count from the end of a token; what it highlights begins behind the context.
    token = next(
        (one for one in tokens if one.line == found.get("line") and one.col == found.get("col")), tokens[-1]
    )
    if message.startswith("Required keyword"):
        return text.error_at("SQL_SYNTAX", _missing(token), token.start, token.end)
    if message.startswith("Invalid expression"):
        return text.error_at("SQL_SYNTAX", f"{token.text!r} was not expected here", token.start, token.end)
    message = message.partition(" but got ")[0]
    return text.error_at("SQL_SYNTAX", message[:1].lower() + message[1:], token.start, token.end)


def _missing(token: Token) -> str:
    return f"something is missing after {token.text!r}"
