package users

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"time"
)

// multiplexer is the socket that asks all user databases of the machine: files, homed,
// and by NSS everything in nsswitch.conf (LDAP, SSSD).
const multiplexer = "/run/systemd/userdb/io.systemd.Multiplexer"

// timeout bounds one question. It runs in the background, so it may be as slow as LDAP.
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

// query asks the database. Whatever goes wrong, the user is unknown for a while.
func query(socket string, q question) answer {
	unknown := answer{until: time.Now().Add(keepUnknown)}
	conn, err := net.DialTimeout("unix", socket, timeout)
	if err != nil {
		return unknown
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(timeout)) != nil {
		return unknown
	}
	request, err := encode(q)
	if err != nil {
		return unknown
	}
	if _, err := conn.Write(request); err != nil {
		return unknown
	}
	message, err := bufio.NewReader(io.LimitReader(conn, maxReply)).ReadBytes(0)
	if err != nil {
		return unknown
	}
	name, uid, ok := decode(message[:len(message)-1])
	if !ok || (q.name == "" && uid != q.uid) {
		return unknown
	}
	return answer{name: name, uid: uid, known: true, until: time.Now().Add(keepKnown)}
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
	if record.UID == nil || !valid(record.Name) {
		return "", 0, false
	}
	return record.Name, *record.UID, true
}
