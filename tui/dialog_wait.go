package tui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// waitDialog asks for a span of time and says at once what is wrong with it.
type waitDialog struct {
	title, hint string
	low, high   time.Duration
	in          input
	take        func(d time.Duration)
}

func newWaitDialog(title, hint string, now, low, high time.Duration, take func(d time.Duration)) *waitDialog {
	d := &waitDialog{title: title, hint: hint, low: low, high: high, take: take}
	d.in.set(strings.ReplaceAll(waitText(now), " ", ""))
	return d
}

// value is what was typed: a number of seconds, or with a unit of its own ("90s",
// "2m", "1h30m"). bad says what is wrong with it.
func (d *waitDialog) value() (wait time.Duration, bad string) {
	text := strings.ToLower(strings.ReplaceAll(d.in.text(), " ", ""))
	if text == "" {
		return 0, "a number of seconds, or 2m, 1h"
	}
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		wait = time.Duration(n) * time.Second
	} else if wait, err = time.ParseDuration(text); err != nil {
		return 0, "no time: give seconds as 90, or 90s, 2m, 1h30m"
	}
	switch {
	case wait < 0:
		return 0, "a time is not negative"
	case wait%time.Second != 0:
		return 0, "whole seconds only"
	case wait < d.low:
		return 0, "at least " + waitText(d.low)
	case wait > d.high:
		return 0, "at most " + waitText(d.high)
	}
	return wait, ""
}

// waitText is a span of time to the second: "20 s", "1 m 30 s", "2 h".
func waitText(d time.Duration) string {
	var parts []string
	for _, u := range []struct {
		unit string
		size time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n := d / u.size; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, u.unit))
			d -= n * u.size
		}
	}
	if len(parts) == 0 {
		return "0 s"
	}
	return strings.Join(parts, " ")
}

func (d *waitDialog) draw(_ *Model, screen area) {
	a := popup(screen, 70, 5, d.title, stAccent)
	d.in.draw(a, 0, 0, a.w())
	enter := line{sp("enter", stAccent.bold()), sp(" take it   ", stDim)}
	if wait, bad := d.value(); bad != "" {
		a.line(0, 1, a.w(), line{sp("✖ ", stCrit.bold()), sp(bad, stCrit)})
		enter = line{sp("enter", stDim), sp(" take it   ", stDim)}
	} else {
		a.line(0, 1, a.w(), line{sp(waitText(wait), stStrong), sp("; "+d.hint, stDim)})
	}
	a.line(0, 2, a.w(), append(enter, sp("esc", stAccent.bold()), sp(" leave it", stDim)))
}

func (d *waitDialog) keys() []dialogKey {
	return []dialogKey{
		closeKey(d, "leave it", "esc"),
		{[]string{"enter"}, "take it", func(m *Model, _ tea.KeyPressMsg) tea.Cmd {
			if wait, bad := d.value(); bad == "" {
				m.close(d)
				d.take(wait)
			}
			return nil
		}},
	}
}

func (d *waitDialog) typed(_ *Model, k tea.KeyPressMsg) tea.Cmd { d.in.key(k); return nil }

func (d *waitDialog) paste(_ *Model, text string) tea.Cmd { d.in.insert(text); return nil }

func (d *waitDialog) cursor() (x, y int, ok bool) { return d.in.cursor() }
