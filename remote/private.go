package remote

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A private folder holds the sockets of one ssh child: mode 0700, a path short
// enough for a socket address, and a lock that is held while its owner lives.
// Names begin with privatePrefix, so that the folders of owners that were
// killed can be swept by the next one.
const privatePrefix = "runvigil-"

// maxFolder leaves room in a 104-byte socket address (darwin) for "/m" and the
// suffix of 17 characters under which ssh first binds its control socket.
const maxFolder = 104 - 1 - len("/m") - 17

// youngFolder is the age under which a folder without a lock may belong to an
// owner that is just making it.
const youngFolder = time.Minute

type privateFolder struct {
	path string
	lock *os.File
}

// newPrivateFolder makes one below the first base that is short and writable.
func newPrivateFolder() (*privateFolder, error) {
	var errs []error
	for _, base := range privateBases() {
		f, err := makePrivateFolder(base)
		if err == nil {
			sweepPrivateFolders(base)
			return f, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no folder for the ssh control socket (set TMPDIR to a short, private one): %w", errors.Join(errs...))
}

func privateBases() []string {
	var bases []string
	for _, b := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if filepath.IsAbs(b) {
			bases = append(bases, filepath.Clean(b))
		}
	}
	return bases
}

func makePrivateFolder(base string) (*privateFolder, error) {
	path, err := os.MkdirTemp(base, privatePrefix)
	if err != nil {
		return nil, err
	}
	if len(path) > maxFolder {
		os.Remove(path)
		return nil, fmt.Errorf("%s is too long for a socket address", path)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		os.RemoveAll(path)
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &privateFolder{path: path, lock: lock}, nil
}

func (f *privateFolder) join(name string) string { return filepath.Join(f.path, name) }

func (f *privateFolder) remove() error {
	err := os.RemoveAll(f.path)
	f.lock.Close()
	return err
}

// sweepPrivateFolders removes what killed owners left in base. Only folders of
// this user are looked at; one whose lock is held is alive.
func sweepPrivateFolders(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), privatePrefix) {
			continue
		}
		path := filepath.Join(base, e.Name())
		var st unix.Stat_t
		if unix.Lstat(path, &st) != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o777 != 0o700 {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR, 0)
		if err != nil {
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > youngFolder {
				os.Remove(path) // an empty folder only: without a lock it was never ours in full
			}
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.RemoveAll(path)
		}
		lock.Close()
	}
}
