# Files: stat, bytes from an offset, counts from an offset, listings.

# Whether dd can skip and count bytes by itself is found out once.
seek() {
	if [ "$(printf abcd | dd bs=4 iflag=skip_bytes,count_bytes skip=1 count=2)" = bc ]; then
		K=1
	else
		K=0
	fi
}

rd() { # offset, bytes, path
	[ -n "$K" ] || seek
	if [ "$K" = 1 ]; then
		dd if="$3" bs=65536 iflag=skip_bytes,count_bytes skip="$1" count="$2"
	else
		{
			dd bs=1 skip="$1" count=0
			head -c "$2"
		} <"$3"
	fi
}

rdm() { # as rd, for many bytes
	[ -n "$K" ] || seek
	if [ "$K" = 1 ]; then
		dd if="$3" bs=1048576 iflag=skip_bytes,count_bytes skip="$1" count="$2"
	else
		{
			dd bs=1 skip="$1" count=0
			head -c "$2"
		} <"$3"
	fi
}

# Newlines and bytes from an offset on, at most so many.
rw() { # offset, bytes, path
	[ -n "$K" ] || seek
	if [ "$K" = 1 ]; then
		dd if="$3" bs=1048576 iflag=skip_bytes,count_bytes skip="$1" count="$2" | wc -lc
	else
		{
			dd bs=1 skip="$1" count=0
			head -c "$2"
		} <"$3" | wc -lc
	fi
}

# The stat of all wanted files, whose quoted paths are in W, and which of them
# this login may not read.
st() {
	eval "set -- $W"
	[ $# = 0 ] && return
	stat -L -c '%d:%i %s %Y %f %n' -- "$@" 2>&1
	t=$?
	for p; do
		[ -r "$p" ] || [ ! -e "$p" ] || printf '%s %s\n' -r "$p"
	done
	return $t
}

# Space and inodes of the file systems of paths, or of their nearest parents
# that exist: a line a path each.
dk() { # paths
	for p; do
		shift
		while [ ! -e "$p" ]; do
			case $p in
			*/*) p=${p%/*} ;;
			*) p= ;;
			esac
			[ -n "$p" ] || p=/
		done
		set -- "$@" "$p"
	done
	df -Pk -- "$@"
	s
	df -Pi -- "$@"
}

# The newest data files in directories and one level below each.
nd() { # how many, directories
	n=$1
	shift
	for p; do
		shift
		set -- "$@" "$p/."
	done
	find -L "$@" -maxdepth 2 -name '.?*' -prune -o -type f \( -name '*.jsonl' -o -name '*.ndjson' -o -name '*.json' -o -name '*.csv' -o -name '*.tsv' -o -name '*.parquet' -o -name '*.jsonl.tmp' -o -name '*.json.tmp' -o -name '*.jsonl.part' -o -name '*.log' -o -name '*.out' -o -name '*.err' \) -exec stat -L -c '%d:%i %s %Y %f %n' {} + | sort -k3,3nr -k2,2nr | head -n "$n"
}

# Offsets (from the slice's start) of the lines that hold one of the strings in
# A, one a line, at most 400: the last ones, or with H=head the first. X=-i
# ignores the case of letters.
gr() { # offset, bytes, path
	if [ -z "$B" ]; then
		if [ "$(printf 'a\nb\n' | grep -abF b)" = 2:b ]; then B=1; else B=0; fi
	fi
	if [ "$B" = 1 ]; then
		rdm "$1" "$2" "$3" | grep -abF $X -e "$A" | sed -n 's/^\([0-9]*\):.*/\1/p' | ${H:-tail} -n 400
	else
		for n in $(rdm "$1" "$2" "$3" | grep -nF $X -e "$A" | sed -n 's/^\([0-9]*\):.*/\1/p' | ${H:-tail} -n 40); do
			rdm "$1" "$2" "$3" | head -n $((n - 1)) | wc -c
		done
	fi
}
