# The nvidia-smi stream under a lease. Each line from the client renews it; it
# ends with its input, or when nobody has renewed it for a minute. The client
# puts G=<nvidia-smi>, F=<fields>, M=<milliseconds> in front.

lease() {
	kill "$w"
	(
		sleep 60 >/dev/null &
		z=$!
		trap 'kill $z; exit 0' TERM
		wait "$z"
		kill -9 "$Q" $$
	) >/dev/null </dev/null &
	w=$!
}

stream() {
	Jg= Jh= Q= w=
	LC_ALL=C
	export LC_ALL
	exec 2>/dev/null
	guard
	printf '\n@%s START\n' "$N"
	"$G" --query-gpu="$F" --format=csv,noheader,nounits -lms "$M" </dev/null 2>&1 &
	Q=$!
	lease
	printf '\n@%s READY %s %s %s\n' "$N" "$Q" "$PPID" "$$"
	while read -r c; do
		lease
		case $c in
		*w)
			wait "$Q"
			printf '\n@%s E 0 %s\n' "$N" "$?"
			;;
		esac
	done
	kill -9 "$Q" "$w"
	exit 0
}
