package sglang

import (
	"bytes"

	"github.com/runvigil/runvigil/metrics"
)

// argsLine takes the printed ServerArgs, which may run over several lines when
// a terminal wrapped them.
func (p *Parser) argsLine(msg []byte, h head) bool {
	open := bytes.IndexByte(msg, '(')
	if open < 0 || open > 40 {
		return false
	}
	flags, closed := parseArgs(msg[open+1:])
	if !closed && p.heldN < maxArgs && len(msg) < metrics.MaxLine {
		p.hold(msg, h, true)
		return true
	}
	p.step(StepArgs, h).Flags = flags
	p.emit(&p.ev)
	return true
}

// maxArgName is longer than any setting's name.
const maxArgName = 100

// parseArgs reads name=value pairs of a Python repr up to the closing
// parenthesis. Values keep their repr, strings lose their quotes, secrets are
// masked.
func parseArgs(b []byte) (flags map[string]string, closed bool) {
	flags = map[string]string{}
	for i := 0; i < len(b) && len(flags) < 2000; {
		for i < len(b) && (b[i] == ' ' || b[i] == ',') {
			i++
		}
		start := i
		for i < len(b) && (letter(b[i]) || digit(b[i]) || b[i] == '_') {
			i++
		}
		if i < len(b) && b[i] == ')' {
			return flags, true
		}
		if i >= len(b) || b[i] != '=' || i == start || i-start > maxArgName {
			i++
			continue
		}
		name := string(b[start:i])
		i++
		end := valueEnd(b, i)
		value := b[i:end]
		if len(value) >= 2 && (value[0] == '\'' || value[0] == '"') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		text := metrics.Clean(string(value), 512)
		flags[name] = metrics.MaskValue(name, text)
		i = end
	}
	return flags, false
}

// valueEnd is where a Python value ends: at a comma or a closing parenthesis
// outside quotes and brackets.
func valueEnd(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch c := b[i]; c {
		case '\'', '"':
			for i++; i < len(b) && b[i] != c; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}
