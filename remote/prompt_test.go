package remote

import (
	"testing"
)

func TestClassify(t *testing.T) {
	tests := []struct {
		text string
		want Prompt // without Text
	}{
		{"The authenticity of host '[127.0.0.1]:2222 ([127.0.0.1]:2222)' can't be established.\nED25519 key fingerprint is SHA256:OVqC/3/pFjiQnMkj6sGAefqBYYWChJ5HsY6iuwQL4Zk.\nThis key is not known by any other names.\nAre you sure you want to continue connecting (yes/no/[fingerprint])? ",
			Prompt{Kind: PromptHostKey, KeyType: "ED25519", Fingerprint: "SHA256:OVqC/3/pFjiQnMkj6sGAefqBYYWChJ5HsY6iuwQL4Zk", Echo: true}},
		{"Please type 'yes', 'no' or the fingerprint: ", Prompt{Kind: PromptHostKey, Echo: true}},
		{"Enter passphrase for key '/home/op/.ssh/id_ed25519': ", Prompt{Kind: PromptPassphrase, Key: "/home/op/.ssh/id_ed25519"}},
		{"Enter PIN for 'PIV II': ", Prompt{Kind: PromptPassphrase, Key: "PIV II"}},
		{"Enter PIN for ED25519-SK key /home/op/.ssh/id_sk: ", Prompt{Kind: PromptPassphrase, Key: "ED25519-SK key /home/op/.ssh/id_sk"}},
		{"root@gpu7's password: ", Prompt{Kind: PromptPassword, Host: "root@gpu7"}},
		{"(root@gpu7) Password: ", Prompt{Kind: PromptPassword, Host: "root@gpu7"}},
		{"(root@gpu7) Verification code: ", Prompt{Kind: PromptOTP, Host: "root@gpu7"}},
		{"One-time password (OATH) for `root': ", Prompt{Kind: PromptOTP}},
		{"Enter a passcode or select one of the following options:\n 1. Duo Push\nPasscode or option (1-1): ", Prompt{Kind: PromptOTP}},
		{"Confirm user presence for key ED25519-SK SHA256:abc", Prompt{Kind: PromptTouch}},
		{"(root@gpu7) What is your favourite colour? ", Prompt{Kind: PromptText, Host: "root@gpu7"}},
		{"", Prompt{Kind: PromptText}},
	}
	for _, tt := range tests {
		got := classify(tt.text)
		got.Text = ""
		if got != tt.want {
			t.Errorf("classify(%q) = %+v, want %+v", tt.text, got, tt.want)
		}
	}
}

func TestAccepts(t *testing.T) {
	const fp = "SHA256:abc"
	for answer, want := range map[string]bool{"yes": true, " YES\n": true, fp: true, fp + " ": true, "y": false, "no": false, "": false, "SHA256:abd": false} {
		if accepts(answer, fp) != want {
			t.Errorf("accepts(%q) = %v", answer, !want)
		}
	}
	if accepts("", "") {
		t.Error("an empty answer is taken for an unknown fingerprint")
	}
}
