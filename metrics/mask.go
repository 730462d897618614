package metrics

import "strings"

// Masked stands where a secret stood.
const Masked = "***"

// How far Mask looks: names longer than this are none, and a secret that is
// longer than a line's cap is cut with the line.
const maxNameLen = 64

// maskByte marks the bytes at which a secret may be told: the separators that
// follow a name, the dashes before one, and letters of well-known token shapes.
var maskByte = func() (t [256]bool) {
	for _, b := range []byte("=:-_BbJK") {
		t[b] = true
	}
	return t
}()

// Mask replaces the secrets in one line by "***": values of names such as
// api_key, token, password (name=value, name: value, 'name': 'value', --name
// value), Authorization headers and bearer tokens, keys of well-known shape
// (sk-…, hf_…), and the password in a URL. Names keep their values when those
// say nothing (None, null, empty). Mask(Mask(s)) == Mask(s).
func Mask(line string) string {
	var out strings.Builder
	last := 0
	for i := 0; i < len(line); i++ {
		if !maskByte[line[i]] {
			continue
		}
		start, end := secretAt(line, i, last)
		if start < 0 || missingValue(line, start, end) {
			continue
		}
		if last == 0 {
			out.Grow(len(line) + len(Masked))
		}
		out.WriteString(line[last:start])
		out.WriteString(Masked)
		last = end
		i = end - 1
	}
	if last == 0 {
		return line
	}
	out.WriteString(line[last:])
	return out.String()
}

// secretAt returns the span of the secret that the byte at i gives away, or -1.
// Bytes before floor are already written and may not be taken again.
func secretAt(s string, i, floor int) (start, end int) {
	switch s[i] {
	case '=', ':':
		if s[i] == ':' && strings.HasPrefix(s[i:], "://") {
			return urlSecret(s, i+3)
		}
		if secretName(nameBefore(s, i, floor)) {
			return valueSpan(s, i+1, s[i] == ':')
		}
	case '-':
		if i+1 < len(s) && isNameByte(s[i+1]) && s[i+1] != '-' && (i < 2 || !isNameByte(s[i-2]) && s[i-1] == '-' || !isNameByte(s[i-1])) {
			if start, end := flagSecret(s, i); start >= 0 {
				return start, end
			}
		}
		return shapedSecret(s, i)
	case '_':
		return shapedSecret(s, i)
	case 'B', 'b':
		if len(s) > i+7 && foldEqual(s[i:i+6], "bearer") && s[i+6] == ' ' && (i == 0 || !isNameByte(s[i-1])) {
			return tokenSpan(s, i+7, 8)
		}
	case 'J':
		if i >= 2 && s[i-2:i] == "ey" && (i == 2 || !isNameByte(s[i-3])) {
			start, end := tokenSpan(s, i-2, 24)
			if start >= floor && start >= 0 && strings.Count(s[start:end], ".") == 2 {
				return start, end
			}
		}
	case 'K':
		if i >= 1 && strings.HasPrefix(s[i-1:], "AKIA") && i-1 >= floor && (i == 1 || !isNameByte(s[i-2])) {
			return tokenSpan(s, i-1, 20)
		}
	}
	return -1, -1
}

// lastLetter marks how the names that count end: key, token, password, secret,
// passphrase, cookie, credentials. It rejects most separators at once.
var lastLetter = func() (t [256]bool) {
	for _, b := range []byte("yYnNdDtTeEsS") {
		t[b] = true
	}
	return t
}()

// nameBefore is the identifier that ends before the separator at i, without
// the spaces and the quote that may stand between.
func nameBefore(s string, i, floor int) string {
	end := i
	for end > floor && i-end < 3 && s[end-1] == ' ' {
		end--
	}
	if end > floor && (s[end-1] == '\'' || s[end-1] == '"') {
		end--
		if end > floor && s[end-1] == '\\' {
			end--
		}
	}
	if end <= floor || !lastLetter[s[end-1]] {
		return ""
	}
	start := end
	for start > floor && end-start < maxNameLen && isNameByte(s[start-1]) {
		start--
	}
	return s[start:end]
}

func isNameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-'
}

// tokenOwners are the words before "token" that make it a credential; every
// other token (eos_token, new-token, max_total_token) is a model's.
var tokenOwners = []string{
	"access", "api", "auth", "bearer", "bot", "client", "csrf", "deploy", "github", "gitlab", "hf", "hub",
	"huggingface", "id", "jwt", "oauth", "refresh", "secret", "security", "service", "session", "user", "wandb", "xsrf",
}

// secretName tells whether the value of a setting, header or variable of that
// name has to be hidden.
func secretName(name string) bool {
	name = strings.Trim(name, "-_")
	if len(name) < 3 {
		return false
	}
	switch last := lastWord(name); {
	case foldEqual(last, "key"):
		rest := strings.TrimRight(name[:len(name)-3], "-_")
		owner := lastWord(rest)
		for _, w := range []string{"api", "access", "secret", "private", "auth", "signing", "encryption", "admin", "account", "master", "license"} {
			if foldEqual(owner, w) {
				return true
			}
		}
	case foldEqual(last, "token"):
		rest := strings.TrimRight(name[:len(name)-5], "-_")
		if rest == "" {
			return true
		}
		owner := lastWord(rest)
		for _, w := range tokenOwners {
			if foldEqual(owner, w) {
				return true
			}
		}
		return isUpper(name) // an environment variable
	case foldEqual(last, "apikey"), foldEqual(last, "secret"), foldEqual(last, "secrets"), foldEqual(last, "password"),
		foldEqual(last, "passwd"), foldEqual(last, "passphrase"), foldEqual(last, "credential"), foldEqual(last, "credentials"),
		foldEqual(last, "authorization"), foldEqual(last, "cookie"), foldEqual(last, "accesskey"), foldEqual(last, "secretkey"),
		foldEqual(last, "authtoken"), foldEqual(last, "accesstoken"):
		return true
	}
	return false
}

func lastWord(name string) string {
	return name[strings.LastIndexAny(name, "-_")+1:]
}

func isUpper(s string) bool {
	for i := range len(s) {
		if s[i] >= 'a' && s[i] <= 'z' {
			return false
		}
	}
	return true
}

// foldEqual compares ASCII without regard to case; lower is in lower case.
func foldEqual(s, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// valueSpan is the value that begins at or shortly after i: quoted, or a bare
// word, or the word after an authorization scheme.
func valueSpan(s string, i int, colon bool) (start, end int) {
	for i < len(s) && s[i] == ' ' {
		i++
	}
	start, end, quoted := quotedSpan(s, i)
	if !quoted {
		start, end = i, wordEnd(s, i)
		if colon && strings.HasPrefix(s[end:], " ") {
			for _, scheme := range []string{"bearer", "basic", "token", "digest", "apikey"} {
				if foldEqual(s[start:end], scheme) {
					start = end + 1
					end = wordEnd(s, start)
					break
				}
			}
		}
	}
	if saysNothing(s[start:end], !quoted) {
		return -1, -1
	}
	return start, end
}

// quotedSpan is the inside of the quotes that open at i; a quote that never
// closes reaches to the end of the line.
func quotedSpan(s string, i int) (start, end int, ok bool) {
	escaped := i+1 < len(s) && s[i] == '\\' && (s[i+1] == '"' || s[i+1] == '\'')
	if escaped {
		i++
	}
	if i >= len(s) || s[i] != '"' && s[i] != '\'' {
		return 0, 0, false
	}
	quote := s[i]
	start = i + 1
	for end = start; end < len(s); end++ {
		switch {
		case s[end] == '\\' && escaped && end+1 < len(s) && s[end+1] == quote:
			return start, end, true
		case s[end] == '\\':
			end++
		case s[end] == quote:
			return start, end, true
		}
	}
	return start, len(s), true
}

func wordEnd(s string, i int) int {
	for i < len(s) && !endsWord(s[i]) {
		i++
	}
	return i
}

// missingValue tells a span that is no value but the next setting: a flag, or
// a name with its own separator (a= api_key='c', --a {"password": "c"}).
func missingValue(s string, start, end int) bool {
	if start > 0 && (s[start-1] == '\'' || s[start-1] == '"') {
		return false
	}
	if strings.HasPrefix(s[start:end], "--") {
		return true
	}
	for i := start; i < end; i++ {
		if (s[i] == '=' || s[i] == ':') && secretName(nameBefore(s, i, start)) {
			return true
		}
	}
	return false
}

func endsWord(b byte) bool {
	return b <= ' ' || strings.IndexByte(`,;&)]}"'`+"`", b) >= 0
}

// saysNothing tells the values that are no secret: absent ones, what is already
// masked, and for bare words numbers and flags (token: 12 counts tokens).
func saysNothing(v string, bare bool) bool {
	switch v {
	case "", Masked, "None", "null", "nil", "True", "False", "true", "false":
		return true
	}
	if !bare {
		return false
	}
	if strings.HasPrefix(v, Masked) {
		return true
	}
	for i := range len(v) {
		if (v[i] < '0' || v[i] > '9') && v[i] != '.' && v[i] != '-' {
			return false
		}
	}
	return len(v) < 12 && v != ""
}

// flagSecret finds "--name value" and its form in a printed list
// ('--name', 'value'); "--name=value" is told at its equals sign.
func flagSecret(s string, i int) (start, end int) {
	end = i + 1
	for end < len(s) && end-i < maxNameLen && isNameByte(s[end]) {
		end++
	}
	if !secretName(s[i+1 : end]) {
		return -1, -1
	}
	gap := end
	for gap < len(s) && gap-end < 4 && strings.IndexByte("'\", ", s[gap]) >= 0 {
		gap++
	}
	if gap == end || gap >= len(s) || s[gap] == '-' {
		return -1, -1
	}
	start = gap
	if q := s[gap-1]; q == '\'' || q == '"' {
		if start, end, ok := quotedSpan(s, gap-1); ok && !saysNothing(s[start:end], false) {
			return start, end
		}
		return -1, -1
	}
	if s[gap-1] != ' ' {
		return -1, -1
	}
	for end = start; end < len(s) && s[end] > ' '; {
		end++
	}
	if saysNothing(s[start:end], false) {
		return -1, -1
	}
	return start, end
}

// shapes are the prefixes of credentials that are told by their look, each
// with the separator that ends it and the least number of characters behind.
var shapes = []struct {
	prefix string
	least  int
}{
	{"sk-", 16}, {"hf_", 16}, {"ghp_", 20}, {"gho_", 20}, {"ghs_", 20}, {"github_pat_", 20},
	{"glpat-", 16}, {"xoxb-", 16}, {"xoxp-", 16}, {"nvapi-", 16}, {"gsk_", 20}, {"r8_", 20},
}

func shapedSecret(s string, i int) (start, end int) {
	if i < 2 {
		return -1, -1
	}
	switch s[i-2 : i] {
	case "sk", "hf", "hp", "ho", "hs", "at", "xb", "xp", "pi", "r8":
	default:
		return -1, -1
	}
	for _, shape := range shapes {
		n := len(shape.prefix)
		start := i + 1 - n
		if start < 0 || s[start:i+1] != shape.prefix || start > 0 && isNameByte(s[start-1]) {
			continue
		}
		end := i + 1
		for end < len(s) && isNameByte(s[end]) {
			end++
		}
		if end-i-1 >= shape.least {
			return start, end
		}
	}
	return -1, -1
}

// tokenSpan is the run of credential characters from i, if it has at least that many.
func tokenSpan(s string, i, least int) (start, end int) {
	end = i
	for end < len(s) && (isNameByte(s[end]) || strings.IndexByte("._~+/=", s[end]) >= 0) {
		end++
	}
	if end-i < least {
		return -1, -1
	}
	return i, end
}

// urlSecret is the password (or the lone user part, often a token) before the @
// of a URL whose authority begins at i.
func urlSecret(s string, i int) (start, end int) {
	at := -1
	end = i
	for end < len(s) && !endsWord(s[end]) && strings.IndexByte("/?#", s[end]) < 0 {
		if s[end] == '@' {
			at = end
		}
		end++
	}
	if at < 0 {
		return -1, -1
	}
	start = i
	if colon := strings.IndexByte(s[i:at], ':'); colon >= 0 {
		start = i + colon + 1
	}
	if saysNothing(s[start:at], false) {
		return -1, -1
	}
	return start, at
}

// MaskArgv masks the secrets of a command line, given as its arguments. The
// result is a new slice of the same length.
func MaskArgv(argv []string) []string {
	out := make([]string, len(argv))
	hide := false
	for i, arg := range argv {
		switch {
		case hide && !strings.HasPrefix(arg, "--"):
			out[i] = Masked
			if saysNothing(arg, false) {
				out[i] = arg
			}
			hide = false
			continue
		case strings.HasPrefix(arg, "-") && !strings.ContainsAny(arg, "= "):
			hide = secretName(arg)
		default:
			hide = false
		}
		if name, value, found := strings.Cut(arg, "="); found && !strings.ContainsAny(name, " \t") && secretName(name) && !saysNothing(value, false) {
			out[i] = name + "=" + Masked
			continue
		}
		out[i] = Mask(arg)
	}
	return out
}

// MaskEnv masks the secrets of an environment, given as NAME=value entries. It
// hides more than Mask: any variable whose last word is KEY, TOKEN, AUTH or the
// like. The result is a new slice of the same length.
func MaskEnv(env []string) []string {
	out := make([]string, len(env))
	for i, entry := range env {
		name, value, found := strings.Cut(entry, "=")
		if found && (secretName(name) || secretVariable(name)) && !saysNothing(value, false) {
			out[i] = name + "=" + Masked
			continue
		}
		out[i] = Mask(entry)
	}
	return out
}

func secretVariable(name string) bool {
	last := lastWord(name)
	for _, w := range []string{"key", "token", "auth", "pass", "pat", "dsn", "creds", "jwt"} {
		if foldEqual(last, w) {
			return true
		}
	}
	return false
}

// MaskValue masks the value of one setting, given its name.
func MaskValue(name, value string) string {
	if secretName(name) && !saysNothing(value, false) {
		return Masked
	}
	return Mask(value)
}
