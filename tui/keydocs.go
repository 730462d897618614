package tui

import (
	"fmt"
	"strings"
)

// KeysMarkdown renders the key map as docs/keys.md.
func KeysMarkdown() string {
	var b strings.Builder
	b.WriteString("# Keys\n\n")
	b.WriteString("`?` shows the keys that work where you are; `:` runs any command by its name, with `tab` to complete. Nothing needs the mouse; `M` turns it on.\n\n")
	b.WriteString("Generated from the key map in tui/ by `go test ./tui -run TestKeysDoc -update`.\n")
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\n| key | command | where | what it does |\n| --- | --- | --- | --- |\n", g)
		for _, k := range allBindings() {
			if k.group != g {
				continue
			}
			where := "everywhere"
			if len(k.views) > 0 {
				where = strings.Join(k.views, ", ")
			}
			key, name := "", k.name
			if len(k.keys) > 0 {
				key = "`" + k.show + "`"
			}
			if k.arg != "" {
				name += " " + strings.ReplaceAll(k.arg, "|", "\\|")
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", key, name, where, k.help)
		}
	}
	return b.String()
}
