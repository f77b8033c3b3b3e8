package graph

// The scanners of the words that Turtle and SPARQL share. Each looks at what a text begins with.

// NameLength is the length of a prefix or label, 0 if there is none.
func NameLength(s string) int { return nameLength(s) }

// LocalName reads what stands behind the colon of a name with a prefix, and returns its length in s.
func LocalName(s string) (text string, length int, err error) { return localName(s) }

// QuotedPrefix reads a text in quotation marks, and returns its length in s. s begins with a quotation mark.
func QuotedPrefix(s string) (text string, length int, err error) { return quotedPrefix(s) }

// NumberPrefix reads a number and says of what type it is; empty if there is none. s is not empty.
func NumberPrefix(s string) (text, datatype string) { return numberPrefix(s) }

// TagLength is the length of a tag of a language, 0 if there is none.
func TagLength(s string) int { return tagLength(s) }
