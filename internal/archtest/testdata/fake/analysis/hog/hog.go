// Package hog knows who puts it together.
package hog

import _ "reckon/agent"
