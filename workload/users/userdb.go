package users

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os/exec"
	"strconv"
	"time"
)

// multiplexerSocket is the socket that queries all user databases of the machine. These are files, homed, and everything in
// nsswitch.conf through NSS (LDAP, SSSD).
const multiplexerSocket = "/run/systemd/userdb/io.systemd.Multiplexer"

// queryTimeout limits one query. Queries run in the background, so they may be as slow as LDAP.
const queryTimeout = 3 * time.Second

// maxReplySize limits a reply in bytes. A record may contain a picture.
const maxReplySize = 1 << 20

// varlinkCall is a Varlink method call (varlink.org): one JSON object and a zero byte.
type varlinkCall struct {
	Method     string            `json:"method"`
	Parameters varlinkParameters `json:"parameters"`
}

type varlinkParameters struct {
	UID     *uint32 `json:"uid,omitempty"`
	Name    string  `json:"userName,omitempty"`
	Service string  `json:"service"`
}

// varlinkReply is the part that we need of the answer.
type varlinkReply struct {
	Error      string `json:"error"`
	Parameters struct {
		Record struct {
			Name string  `json:"userName"`
			UID  *uint32 `json:"uid"`
		} `json:"record"`
	} `json:"parameters"`
}

// queryUserDB queries the user database. answered is false if the database does not respond. The user is then unknown for a while.
func queryUserDB(socket string, q userQuery) (a userEntry, answered bool) {
	unknown := userEntry{until: time.Now().Add(failureAge)}
	conn, err := net.DialTimeout("unix", socket, queryTimeout)
	if err != nil {
		return unknown, false
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(queryTimeout)) != nil {
		return unknown, false
	}
	request, err := encodeCall(q)
	if err != nil {
		return unknown, false
	}
	if _, err := conn.Write(request); err != nil {
		return unknown, false
	}
	message, err := bufio.NewReader(io.LimitReader(conn, maxReplySize)).ReadBytes(0)
	if err != nil {
		return unknown, false
	}
	name, uid, ok := decodeReply(message[:len(message)-1])
	if !ok || (q.name == "" && uid != q.uid) {
		return unknown, true
	}
	return userEntry{name: name, uid: uid, known: true, until: time.Now().Add(knownAge)}, true
}

// runGetent runs getent(1), which exits with 2 if the user is unknown.
func runGetent(getent string, q userQuery) userEntry {
	unknown := userEntry{until: time.Now().Add(failureAge)}
	key := q.name
	if key == "" {
		key = strconv.FormatUint(uint64(q.uid), 10)
	}
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, getent, "passwd", key)
	c.Env, c.WaitDelay = []string{"LC_ALL=C"}, queryTimeout
	text, err := c.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && failed.ExitCode() == 2 {
		unknown.until = time.Now().Add(knownAge)
	}
	names, _ := parsePasswd(text)
	for uid, name := range names {
		if err == nil && (q.name != "" || q.uid == uid) { // a directory may spell a name in another case
			return userEntry{name: name, uid: uid, known: true, until: time.Now().Add(knownAge)}
		}
	}
	return unknown
}

func encodeCall(q userQuery) ([]byte, error) {
	c := varlinkCall{Method: "io.systemd.UserDatabase.GetUserRecord"}
	c.Parameters.Service = "io.systemd.Multiplexer"
	if c.Parameters.Name = q.name; q.name == "" {
		c.Parameters.UID = &q.uid
	}
	b, err := json.Marshal(c)
	return append(b, 0), err
}

// decodeReply reads a reply without its zero byte.
func decodeReply(message []byte) (name string, uid uint32, ok bool) {
	var r varlinkReply
	if json.Unmarshal(message, &r) != nil || r.Error != "" {
		return "", 0, false
	}
	record := r.Parameters.Record
	if record.UID == nil || !isValidName(record.Name) {
		return "", 0, false
	}
	return record.Name, *record.UID, true
}
