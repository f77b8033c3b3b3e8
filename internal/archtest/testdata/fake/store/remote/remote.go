// Package remote keeps to its rules.
package remote

import _ "reckon/store"
