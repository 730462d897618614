package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/runvigil/runvigil/metrics/explain"
)

func newExplain(o *options) *cobra.Command {
	var asJSON bool
	var kind string
	var names []string
	for _, k := range explain.Kinds() {
		names = append(names, string(k))
	}
	cmd := &cobra.Command{
		Use:   "explain FILE...",
		Short: "Tell what captured files say, with no node at hand",
		Long: `explain reads captured files and tells what they say: the log of a server or a
client, the output of nvidia-smi (table, CSV, XML, dmon, pmon) and its relatives,
/metrics, /server_info, /v1/loads, a kernel log, JSONL, kubectl output. The kind
is recognised; --kind overrides it. A file may be gzip or zstd; "-" is standard
input. Nothing is connected to and nothing is written.

Exit codes: 0 every file was read and recognised, whatever it tells; 3 one could
not be read or is of no known kind; 64 wrong usage.`,
		Example: `  runvigil explain server.log
  runvigil explain server.log.zst nvidia-smi.txt --json | jq .causes
  kubectl describe pod vllm-0 | runvigil explain -
  dmesg | runvigil explain - --kind kernel-log`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("explain takes at least one FILE (or - for standard input), e.g. `runvigil explain server.log`")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			k := explain.KindAuto
			if kind != "" {
				var ok bool
				if k, ok = explain.ParseKind(kind); !ok {
					return usagef("--kind is %q; it may be %s", kind, strings.Join(names, ", "))
				}
			}
			return explainFiles(o.io, args, k, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a file, each on its own line (docs/explain.schema.json)")
	cmd.Flags().StringVar(&kind, "kind", "", "what the files are: "+strings.Join(names, ", "))
	_ = cmd.RegisterFlagCompletionFunc("kind", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return slices.Clone(names), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// explainFiles reports every file, also those after one that cannot be read.
func explainFiles(streams stdio, names []string, kind explain.Kind, asJSON bool) error {
	failed := false
	for i, name := range names {
		r, err := explainFile(streams, name, kind)
		if err != nil {
			failed = true
			fmt.Fprintf(streams.err, "runvigil: explain %s: %s\n", name, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		if r == nil || err != nil && !asJSON && r.Kind == nil {
			continue
		}
		if asJSON {
			out, err := r.JSON()
			if err != nil {
				return err
			}
			if _, err := streams.out.Write(out); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprintln(streams.out)
		}
		title := name
		if name == "-" {
			title = "standard input"
		}
		if _, err := fmt.Fprint(streams.out, r.Text(title)); err != nil {
			return err
		}
	}
	if failed {
		return exitError(exitFailed)
	}
	return nil
}

// explainFile gives no report for a file that cannot be opened.
func explainFile(streams stdio, name string, kind explain.Kind) (*explain.Report, error) {
	in := io.Reader(streams.in)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, errors.New(strings.TrimPrefix(err.Error(), "open "+name+": "))
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, errors.New("it is a directory; name the files in it")
		}
		in = f
	}
	in, done, err := decompressed(in)
	if err != nil {
		return nil, err
	}
	defer done()
	return explain.Read(in, kind)
}

// decompressed looks at the first bytes rather than at the name.
func decompressed(in io.Reader) (io.Reader, func(), error) {
	br := bufio.NewReaderSize(in, 64<<10)
	magic, err := br.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("read its first bytes: %w", err)
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, nil, fmt.Errorf("open it as gzip: %w", err)
		}
		return z, func() { _ = z.Close() }, nil
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, nil, fmt.Errorf("open it as zstd: %w", err)
		}
		return z, z.Close, nil
	}
	return br, func() {}, nil
}
