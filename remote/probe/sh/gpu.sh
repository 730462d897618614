# The nvidia-smi stream under a lease. Each line from the client renews it; it
# ends with its input, or when nobody has renewed it for a minute. The client
# puts G=<nvidia-smi>, F=<fields>, C=<wanted fields, older names behind a bar>,
# D=<fields that every driver knows>, M=<milliseconds> and libs, which names the
# driver's folder, in front. Without G and F it finds them out by itself: that
# takes no round trip.

# The fields that this nvidia-smi knows: one unknown would fail the whole query.
# Their names stand in quotes at the start of a line.
known() { "$G" --help-query-gpu 2>&1 </dev/null | grep '^"\|libnvidia-ml.so'; }

fields() {
	h=$(known)
	case $h in
	*"couldn't find libnvidia-ml.so"*)
		libs
		h=$(known)
		;;
	esac
	for c in $C; do
		IFS='|'
		for f in $c; do
			case $h in
			*\"$f\"*)
				F=$F,$f
				break
				;;
			esac
		done
		unset IFS
	done
	F=${F#,}
	case $F in
	index,memory.used*) ;;
	*) F=$D ;;
	esac
}

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
	PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
	[ -n "$G" ] || smi
	[ -n "$G" ] || exit 0
	[ -n "$F" ] || fields
	printf 'fields %s\n' "$F"
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
