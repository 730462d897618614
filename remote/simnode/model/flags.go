package model

import (
	_ "embed"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// Flags are the effective settings of a server.
type Flags struct {
	ModelPath    string
	ServedName   string
	TP           int
	Host         string
	Port         int
	MemFraction  float64
	KVDtype      string // "auto", "bf16", "bfloat16", "fp8_e4m3", "fp8_e5m2"
	HiCache      bool
	HiCacheSize  int // GB of 1e9 a rank; 0 means HiCacheRatio holds
	HiCacheRatio float64
	MaxRunning   int // --max-running-requests, 0 automatic
	ChunkedSize  int // -1 means off
	MaxPrefill   int
	ContextLen   int
	LogInterval  int // decode forwards a Decode line
	Metrics      bool
	APIKey       string
	Conservative float64
	DisableRadix bool
	Watchdog     int // seconds
	SkipWarmup   bool
	LogLevel     string
	Help         bool
	VLLM         bool // the engine is vLLM, else SGLang
}

// flagNames are the flags that the simulated version's own argument parser
// knows: "b" takes no value, "v" one, "l" one or more; then its spellings.
//
//go:embed flags_0_5_9.txt
var flagNames string

type flagSpec struct {
	kind byte
	name string
}

var flagTable = sync.OnceValue(func() map[string]flagSpec {
	table := map[string]flagSpec{"--help": {'b', "--help"}, "-h": {'b', "--help"}, "--config": {'v', "--config"}}
	for line := range strings.Lines(flagNames) {
		fields := strings.Fields(line)
		for _, spelling := range fields[1:] {
			table[spelling] = flagSpec{fields[0][0], fields[1]}
		}
	}
	return table
})

// lookupFlag resolves a spelling as argparse does: exact, else the one flag
// that it begins.
func lookupFlag(s string) (flagSpec, error) {
	table := flagTable()
	if spec, ok := table[s]; ok {
		return spec, nil
	}
	found := map[string]flagSpec{}
	var spellings []string
	if strings.HasPrefix(s, "--") {
		for spelling, spec := range table {
			if strings.HasPrefix(spelling, s) {
				found[spec.name] = spec
				spellings = append(spellings, spelling)
			}
		}
	}
	switch {
	case len(found) == 1:
		for _, spec := range found {
			return spec, nil
		}
	case len(found) > 1:
		sort.Strings(spellings)
		return flagSpec{}, fmt.Errorf("ambiguous option: %s could match %s", s, strings.Join(spellings, ", "))
	}
	return flagSpec{}, fmt.Errorf("unrecognized arguments: %s", s)
}

// ParseFlags reads a server's command line: everything from its first flag on.
// Its error is worded as the engine's own argument parser words it.
func ParseFlags(argv []string) (Flags, error) {
	if isVLLM(argv) {
		return parseVLLM(argv)
	}
	f := Flags{
		TP: 1, Host: "127.0.0.1", Port: 30000, MemFraction: 0.88, KVDtype: "auto", HiCacheRatio: 2,
		ChunkedSize: 8192, MaxPrefill: 16384, ContextLen: 262144, LogInterval: 40, Conservative: 1,
		Watchdog: 300, LogLevel: "info",
	}
	i := 0
	for i < len(argv) && argv[i] != "-h" && !strings.HasPrefix(argv[i], "--") {
		i++
	}
	for i < len(argv) {
		word, value, joined := strings.Cut(argv[i], "=")
		i++
		if !strings.HasPrefix(word, "-") {
			return f, fmt.Errorf("unrecognized arguments: %s", argv[i-1])
		}
		spec, err := lookupFlag(word)
		if err != nil {
			return f, err
		}
		switch spec.kind {
		case 'v':
			if !joined {
				if i == len(argv) || isFlag(argv[i]) {
					return f, fmt.Errorf("argument %s: expected one argument", spec.name)
				}
				value = argv[i]
				i++
			}
		case 'l':
			for !joined && i < len(argv) && !isFlag(argv[i]) {
				value = argv[i]
				i++
			}
		}
		if err := f.set(spec.name, value); err != nil {
			return f, err
		}
	}
	if f.ModelPath == "" && !f.Help {
		return f, fmt.Errorf("the following arguments are required: --model-path/--model")
	}
	if f.ServedName == "" {
		f.ServedName = f.ModelPath
	}
	return f, nil
}

func isFlag(s string) bool {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return false
	}
	return strings.HasPrefix(s, "-")
}

func (f *Flags) set(name, value string) error {
	integer := func(to *int) error {
		v, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("argument %s: invalid int value: '%s'", name, value)
		}
		*to = v
		return nil
	}
	real := func(to *float64) error {
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("argument %s: invalid float value: '%s'", name, value)
		}
		*to = v
		return nil
	}
	switch name {
	case "--model-path":
		f.ModelPath = value
	case "--served-model-name":
		f.ServedName = value
	case "--tensor-parallel-size", "--tp-size":
		return integer(&f.TP)
	case "--host":
		f.Host = value
	case "--port":
		return integer(&f.Port)
	case "--mem-fraction-static":
		return real(&f.MemFraction)
	case "--kv-cache-dtype":
		for _, known := range []string{"auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16", "fp4_e2m1"} {
			if value == known {
				f.KVDtype = value
				return nil
			}
		}
		return fmt.Errorf("argument --kv-cache-dtype: invalid choice: '%s' (choose from 'auto', 'fp8_e5m2', 'fp8_e4m3', 'bf16', 'bfloat16', 'fp4_e2m1')", value)
	case "--enable-hierarchical-cache":
		f.HiCache = true
	case "--hicache-size":
		return integer(&f.HiCacheSize)
	case "--hicache-ratio":
		return real(&f.HiCacheRatio)
	case "--max-running-requests":
		return integer(&f.MaxRunning)
	case "--chunked-prefill-size":
		return integer(&f.ChunkedSize)
	case "--max-prefill-tokens":
		return integer(&f.MaxPrefill)
	case "--context-length":
		return integer(&f.ContextLen)
	case "--decode-log-interval":
		return integer(&f.LogInterval)
	case "--enable-metrics":
		f.Metrics = true
	case "--api-key":
		f.APIKey = value
	case "--schedule-conservativeness":
		return real(&f.Conservative)
	case "--disable-radix-cache":
		f.DisableRadix = true
	case "--watchdog-timeout":
		return integer(&f.Watchdog)
	case "--skip-server-warmup":
		f.SkipWarmup = true
	case "--log-level":
		f.LogLevel = value
	case "--help":
		f.Help = true
	}
	return nil
}

// fp8 says whether a token of the pool takes one byte a value instead of two.
func (f Flags) fp8() bool { return strings.HasPrefix(f.KVDtype, "fp8") }

// kvTorch is the pool's dtype as torch prints it.
func (f Flags) kvTorch() string {
	switch f.KVDtype {
	case "fp8_e4m3":
		return "torch.float8_e4m3fn"
	case "fp8_e5m2":
		return "torch.float8_e5m2"
	}
	return "torch.bfloat16"
}
