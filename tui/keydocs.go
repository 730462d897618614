package tui

import (
	"fmt"
	"strings"
)

// KeysMarkdown renders the key map as docs/keys.md.
func KeysMarkdown() string {
	var b strings.Builder
	b.WriteString("# Keys\n\n")
	b.WriteString("`?` shows the keys that work where you are; `:` runs any command by its name, with `tab` to complete. Nothing needs the mouse; `M` turns it on. `ctrl-c` leaves at once, from anywhere.\n\n")
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
			name := k.name
			if k.arg != "" {
				name += " " + strings.ReplaceAll(k.arg, "|", "\\|")
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", codeKeys(k.keys), name, where, k.help)
		}
	}
	b.WriteString("\n## Dialogs\n\nA dialog takes every key until it is closed.\n\n| dialog | key | what it does |\n| --- | --- | --- |\n")
	for _, kind := range dialogKinds() {
		for _, k := range kind.d.keys() {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", kind.what, codeKeys(k.keys), k.help)
		}
	}
	b.WriteString("\n## Typing\n\n| key | what it does to a line of text |\n| --- | --- |\n")
	for _, k := range inputKeys {
		fmt.Fprintf(&b, "| %s | %s |\n", codeKeys(k.keys), k.help)
	}
	return b.String()
}

func codeKeys(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return "`" + strings.ReplaceAll(keyNames(keys), " ", "` `") + "`"
}
