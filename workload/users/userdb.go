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

// multiplexer is the socket that queries all user databases of the machine. These are files, homed, and everything in
// nsswitch.conf through NSS (LDAP, SSSD).
const multiplexer = "/run/systemd/userdb/io.systemd.Multiplexer"

// timeout limits one query. Queries run in the background, so they may be as slow as LDAP.
const timeout = 3 * time.Second

// maxReply bounds a reply: a record may carry a picture, but not a film.
const maxReply = 1 << 20

// call is a Varlink method call (varlink.org): one JSON object and a zero byte.
type call struct {
	Method     string     `json:"method"`
	Parameters parameters `json:"parameters"`
}

type parameters struct {
	UID     *uint32 `json:"uid,omitempty"`
	Name    string  `json:"userName,omitempty"`
	Service string  `json:"service"`
}

// reply is the part that we need of the answer.
type reply struct {
	Error      string `json:"error"`
	Parameters struct {
		Record struct {
			Name string  `json:"userName"`
			UID  *uint32 `json:"uid"`
		} `json:"record"`
	} `json:"parameters"`
}

// query queries the database. heard is false if it does not answer; the user is then unknown for a while.
func query(socket string, q question) (a answer, heard bool) {
	unknown := answer{until: time.Now().Add(keepFailure)}
	conn, err := net.DialTimeout("unix", socket, timeout)
	if err != nil {
		return unknown, false
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(timeout)) != nil {
		return unknown, false
	}
	request, err := encode(q)
	if err != nil {
		return unknown, false
	}
	if _, err := conn.Write(request); err != nil {
		return unknown, false
	}
	message, err := bufio.NewReader(io.LimitReader(conn, maxReply)).ReadBytes(0)
	if err != nil {
		return unknown, false
	}
	name, uid, ok := decode(message[:len(message)-1])
	if !ok || (q.name == "" && uid != q.uid) {
		return unknown, true
	}
	return answer{name: name, uid: uid, known: true, until: time.Now().Add(keepKnown)}, true
}

// run calls getent(1), which exits with 2 if the user is unknown.
func run(getent string, q question) answer {
	unknown := answer{until: time.Now().Add(keepFailure)}
	key := q.name
	if key == "" {
		key = strconv.FormatUint(uint64(q.uid), 10)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c := exec.CommandContext(ctx, getent, "passwd", key)
	c.Env, c.WaitDelay = []string{"LC_ALL=C"}, timeout
	text, err := c.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && failed.ExitCode() == 2 {
		unknown.until = time.Now().Add(keepKnown)
	}
	names, _ := parsePasswd(text)
	for uid, name := range names {
		if err == nil && (q.name != "" || q.uid == uid) { // a directory may spell a name in another case
			return answer{name: name, uid: uid, known: true, until: time.Now().Add(keepKnown)}
		}
	}
	return unknown
}

func encode(q question) ([]byte, error) {
	c := call{Method: "io.systemd.UserDatabase.GetUserRecord"}
	c.Parameters.Service = "io.systemd.Multiplexer"
	if c.Parameters.Name = q.name; q.name == "" {
		c.Parameters.UID = &q.uid
	}
	b, err := json.Marshal(c)
	return append(b, 0), err
}

// decode reads a reply without its zero byte.
func decode(message []byte) (name string, uid uint32, ok bool) {
	var r reply
	if json.Unmarshal(message, &r) != nil || r.Error != "" {
		return "", 0, false
	}
	record := r.Parameters.Record
	if record.UID == nil || !isValidName(record.Name) {
		return "", 0, false
	}
	return record.Name, *record.UID, true
}
