package simnode

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// newKey makes an Ed25519 key: as a signer, and as a file in OpenSSH's format.
func newKey(comment string) (ssh.Signer, []byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make an SSH key for the simulated node: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("use the SSH key of the simulated node: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return nil, nil, fmt.Errorf("write the SSH key of the simulated node: %w", err)
	}
	return signer, pem.EncodeToMemory(block), nil
}
