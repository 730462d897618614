package prom

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// decode reads one JSON value. A status page may hold NaN, which Python writes.
func decode(body []byte) (any, error) {
	d := json.NewDecoder(strings.NewReader(pythonNumbers(string(body))))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%d bytes that are not JSON: %w", len(body), err)
	}
	return v, nil
}

// pythonNumbers replaces NaN and Infinity outside of strings by null.
func pythonNumbers(s string) string {
	if !strings.Contains(s, "NaN") && !strings.Contains(s, "Infinity") {
		return s
	}
	var b strings.Builder
	in := false
	for i := 0; i < len(s); i++ {
		switch {
		case in && s[i] == '\\' && i+1 < len(s):
			b.WriteByte(s[i])
			i++
		case s[i] == '"':
			in = !in
		case !in && strings.HasPrefix(s[i:], "NaN"):
			b.WriteString("null")
			i += 2
			continue
		case !in && (strings.HasPrefix(s[i:], "Infinity") || strings.HasPrefix(s[i:], "-Infinity")):
			b.WriteString("null")
			i += strings.Index(s[i:], "y")
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func num(v any) Num {
	n, ok := v.(json.Number)
	if !ok {
		return Num{}
	}
	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) {
		return Num{}
	}
	return Num{f, true}
}

func str(v any) string {
	s, _ := v.(string)
	return metrics.Clean(metrics.Mask(s), 300)
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

func keysOf(m map[string]any) string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return metrics.Clean(strings.Join(keys[:min(len(keys), 12)], ", "), 200)
}
