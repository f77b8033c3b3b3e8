package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// User is a person who works at the site.
type User struct {
	Name, Account string
	UID           uint32

	// kinds are the kinds of jobs of this user, the first most often.
	kinds []*programKind
	// weight is the share of all work that is theirs; a few do most.
	weight float64
	// nightly means that it is handed in by a program, at any hour.
	nightly bool
	// wasteful means that more is asked for than is used.
	wasteful bool
}

var firstNames = []string{
	"alice", "bob", "carol", "dmitri", "elena", "farid", "grace", "hiro", "ines", "jonas", "karin", "liang", "maria", "nils",
	"olga", "pavel", "quinn", "rosa", "sven", "tara", "umar", "vera", "wei", "xenia", "yusuf", "zoe", "amir", "berit", "chen",
	"dana", "emil", "fatou", "goran", "helga", "ivan", "jana", "kofi", "lena", "milan", "nora",
}

var accounts = []string{"astro", "bio", "chem", "climate", "cfd", "ml", "physics", "geo"}

// generateUsers generates users. Most do little and a few do most, in proportion to 1/n^0.8 for user n.
func generateUsers(n int, rnd *rand.Rand) []*User {
	out := make([]*User, n)
	for i := range out {
		u := &User{Name: firstNames[i%len(firstNames)], UID: uint32(2000 + i)}
		if round := i / len(firstNames); round > 0 {
			u.Name += fmt.Sprint(round + 1)
		}
		u.Account = accounts[rnd.IntN(len(accounts))]
		u.weight = math.Pow(float64(1+rnd.IntN(n)), -0.8)
		u.nightly = rnd.IntN(3) == 0
		u.wasteful = rnd.IntN(5) == 0
		for range 1 + rnd.IntN(3) {
			u.kinds = append(u.kinds, pickKind(u.Account, rnd))
		}
		out[i] = u
	}
	return out
}

// pickKind returns a random program for a user of an account.
func pickKind(account string, rnd *rand.Rand) *programKind {
	total := 0.0
	for i := range programKinds {
		total += programKinds[i].weightFor(account)
	}
	at := rnd.Float64() * total
	for i := range programKinds {
		if at -= programKinds[i].weightFor(account); at < 0 {
			return &programKinds[i]
		}
	}
	return &programKinds[0]
}

func (k *programKind) weightFor(account string) float64 {
	if k.home == account && k.gpus == nil {
		return 4 * k.often
	}
	return k.often
}

// hourlyRates are the relative rates of submissions at each hour of a working day, in UTC.
var hourlyRates = [24]float64{2, 1, 1, 1, 1, 1, 2, 4, 8, 11, 12, 11, 9, 11, 12, 12, 11, 9, 6, 4, 4, 3, 3, 2}

// weekendFactor multiplies these rates on Saturdays and Sundays.
const weekendFactor = 0.6
