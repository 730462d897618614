package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// Bounds of a row on screen.
const (
	prettyText  = 400 // bytes shown of one string
	prettyItems = 8   // elements shown of one list
	prettyLines = 400
)

// PrettyRow lays one row out for reading: one member a line, indented, text
// cleaned and masked, long strings and lists folded with what was left out. A
// row that is not JSON is shown as cleaned text.
func PrettyRow(row []byte) []string {
	p := &printer{d: json.NewDecoder(bytes.NewReader(row))}
	p.d.UseNumber()
	if err := p.value("", 0); err != nil && !(errors.Is(err, io.EOF) && len(p.out) > 0) {
		if len(p.out) == 0 || len(p.out) == 1 {
			return []string{fold(string(bytes.TrimSpace(row)))}
		}
		p.line("(the row ends here: it is cut or not JSON)", 0)
	}
	return p.out
}

type printer struct {
	d   *json.Decoder
	out []string
}

func (p *printer) line(s string, depth int) {
	switch {
	case len(p.out) < prettyLines:
		p.out = append(p.out, strings.Repeat("  ", min(depth, 20))+s)
	case len(p.out) == prettyLines:
		p.out = append(p.out, "… more lines")
	}
}

// value prints the next value behind prefix ("key: ", "- ").
func (p *printer) value(prefix string, depth int) error {
	tok, err := p.d.Token()
	if err != nil {
		return err
	}
	switch v := tok.(type) {
	case json.Delim:
		return p.group(v, prefix, depth)
	case string:
		p.text(prefix, v, depth)
	case nil:
		p.line(prefix+"null", depth)
	default:
		p.line(metrics.Mask(metrics.Clean(fmt.Sprintf("%s%v", prefix, v), prettyText)), depth)
	}
	return nil
}

func (p *printer) group(open json.Delim, prefix string, depth int) error {
	if depth >= maxDepth {
		return io.ErrUnexpectedEOF
	}
	if prefix != "" {
		p.line(strings.TrimRight(prefix, " "), depth)
		depth++
	}
	for n := 0; p.d.More(); n++ {
		if open == '[' {
			if n >= prettyItems {
				left, err := p.rest()
				if err != nil {
					return err
				}
				p.line(fmt.Sprintf("… %s more", metrics.Count(float64(left))), depth)
				break
			}
			if err := p.value("- ", depth); err != nil {
				return err
			}
			continue
		}
		key, err := p.d.Token()
		if err != nil {
			return err
		}
		if err := p.value(metrics.Clean(fmt.Sprint(key), 80)+": ", depth); err != nil {
			return err
		}
	}
	_, err := p.d.Token()
	return err
}

// rest reads past the remaining elements of a list and counts them.
func (p *printer) rest() (n int, err error) {
	for p.d.More() {
		var skip json.RawMessage
		if err := p.d.Decode(&skip); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// text prints a string; its own lines are kept, as prose is hard to read without.
func (p *printer) text(prefix, s string, depth int) {
	shown := s
	if len(shown) > prettyText {
		shown = metrics.Cut(shown, prettyText)
	}
	lines := strings.Split(strings.TrimRight(shown, "\n"), "\n")
	for i, l := range lines {
		if i == 0 {
			l = prefix + l
		}
		l = metrics.Mask(metrics.Clean(l, prettyText+100))
		if i == 0 {
			p.line(l, depth)
		} else {
			p.line(l, depth+1)
		}
	}
	if left := len([]rune(s)) - len([]rune(shown)); left > 0 {
		p.line(fmt.Sprintf("(%s more characters)", metrics.Count(float64(left))), depth+1)
	}
}

func fold(s string) string {
	cut := metrics.Mask(metrics.Clean(s, prettyText*4))
	return cut
}
