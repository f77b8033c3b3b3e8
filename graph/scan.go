package graph

// The scanners of the tokens that Turtle and SPARQL share. Each examines the beginning of a text.

// NameLength returns the length of a prefix or label, 0 if there is none.
func NameLength(s string) int { return nameLength(s) }

// LocalName reads the local part of a prefixed name, after the colon, and returns its length in s.
func LocalName(s string) (text string, length int, err error) { return parseLocalName(s) }

// QuotedPrefix reads a quoted string, and returns its length in s. s begins with a quotation mark.
func QuotedPrefix(s string) (text string, length int, err error) { return quotedPrefix(s) }

// NumberPrefix reads a number and returns its type; empty if there is none. s is not empty.
func NumberPrefix(s string) (text, datatype string) { return numberPrefix(s) }

// TagLength returns the length of a language tag, 0 if there is none.
func TagLength(s string) int { return tagLength(s) }
