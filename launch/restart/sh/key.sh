# key_of PID FILE: writes the header with a server's API key into a file that only
# this login can read, and names it in AUTH; the key is in no command line.
key_of() {
	AUTH=
	ko=$(tr '\000' '\n' 2>/dev/null <"/proc/$1/cmdline" | sed -n -e '/^--api-key$/{n;p;}' -e 's/^--api-key=//p' | tail -n 1)
	[ -n "$ko" ] || ko=$(tr '\000' '\n' 2>/dev/null <"/proc/$1/environ" | sed -n 's/^VLLM_API_KEY=//p' | tail -n 1)
	[ -z "$ko" ] || { AUTH=$2 && printf 'Authorization: Bearer %s\n' "$ko" >"$2"; }
}
