// Package deep is where the store comes in.
package deep

import _ "reckon/store/remote"
