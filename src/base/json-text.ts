/** JSON text as a person wrote it: where it is broken, and which names it repeats. */

import { brief } from './options.ts'
import { LONGEST_NAME } from './text.ts'

/** The way to a member of a JSON value: names of objects, and places in lists from 0 on. */
export type JsonPath = readonly (string | number)[]

/** The faults of a text: the place where it stops to be JSON, or the paths of names that an object has twice. */
export interface JsonFaults {
  /** As in `line 3, column 5`; null: the text is JSON. Lines and columns begin at 1. */
  readonly brokenAt: string | null
  /** The first hundred. `JSON.parse` keeps the last value of such a name, and says nothing. */
  readonly repeated: readonly JsonPath[]
}

const REPEATED_AT_MOST = 100
const SPACE = /[ \t\n\r]*/y
const TOKEN = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[{}[\],:]/y
const PLAIN = /[ !#-[\]-\uffff]*/y
const ESCAPE = /\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/y

interface Frame {
  /** Null: a list. */
  readonly names: Set<string> | null
  index: number
  /** The member that is being read. */
  name: string
}

type Next = 'value' | 'value or end' | 'name' | 'name or end' | 'colon' | 'comma or end' | 'nothing'

/** Reads a text of JSON for faults that `JSON.parse` keeps to itself. */
export function jsonFaults(text: string): JsonFaults {
  const repeated: JsonPath[] = []
  const frames: Frame[] = []
  let next: Next = 'value'
  for (let at = 0, end = 0; ;) {
    at = endOf(SPACE, text, end)
    if (at === text.length && next === 'nothing') return { brokenAt: null, repeated }
    end = text[at] === '"' ? endOfString(text, at) : endOf(TOKEN, text, at)
    const token = text.slice(at, end)
    const top = frames.at(-1)
    const after: Next | null = next === 'colon' || next.startsWith('name') ? named(token) : valued(token)
    if (after === null) return { brokenAt: placeOf(text, at), repeated }
    next = after

    function named(part: string): Next | null {
      if (next === 'colon') return part === ':' ? 'value' : null
      if (part === '}' && next === 'name or end') return closed()
      if (!part.startsWith('"') || !top?.names) return null
      top.name = JSON.parse(part) as string
      if (top.names.has(top.name) && repeated.length < REPEATED_AT_MOST)
        repeated.push(frames.map(({ names, name, index }) => (names ? name : index)))
      top.names.add(top.name)
      return 'colon'
    }

    function valued(part: string): Next | null {
      if (part === '' || part === ':' || next === 'nothing') return null
      if (part === ',' || part === '}' || part === ']') return ended(part)
      if (next === 'comma or end') return null
      if (part !== '{' && part !== '[') return frames.length > 0 ? 'comma or end' : 'nothing'
      frames.push({ names: part === '{' ? new Set() : null, index: 0, name: '' })
      return part === '{' ? 'name or end' : 'value or end'
    }

    function ended(part: string): Next | null {
      if (!top) return null
      if (part !== ',') {
        const isOpen = next === 'comma or end' || (next === 'value or end' && !top.names)
        return isOpen && (part === '}') === (top.names !== null) ? closed() : null
      }
      if (next !== 'comma or end') return null
      top.index++
      return top.names ? 'name' : 'value'
    }

    function closed(): Next {
      frames.pop()
      return frames.length > 0 ? 'comma or end' : 'nothing'
    }
  }
}

/** The path of a member of an object, as in `limits.crm`. A name that is too long is cut. */
export function within(path: string, name: string): string {
  const shown = /^[A-Za-z_$][\w$-]*$/.test(name) ? cut(name) : JSON.stringify(cut(name))
  return path === '' ? shown : `${path}.${shown}`
}

function cut(name: string): string {
  return name.length > LONGEST_NAME ? brief(name) : name
}

/** Writes a path, as in `limits.crm[0]`. */
export function pathText(path: JsonPath): string {
  return path.reduce<string>((text, part) => (typeof part === 'number' ? `${text}[${part}]` : within(text, part)), '')
}

/** The position behind a match at a place; the place itself: none. */
function endOf(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : at
}

/** The position behind the closing quote; the place itself: no string is there. One pattern for all would overflow. */
function endOfString(text: string, at: number): number {
  for (let end = at + 1; ;) {
    end = endOf(PLAIN, text, end)
    if (text[end] === '"') return end + 1
    const behind = endOf(ESCAPE, text, end)
    if (behind === end) return at
    end = behind
  }
}

function placeOf(text: string, at: number): string {
  const lines = text.slice(0, at).split('\n')
  return `line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}`
}

/** The path of the first name that an object of a text has twice. Null: none has. @param value the text, parsed */
export function repeatedName(text: string, value: unknown, names: number = outlineOf(text).names): JsonPath | null {
  return namesIn(value) === names ? null : (jsonFaults(text).repeated[0] ?? null)
}

/**
 * Finds how deep a text of JSON is nested, and how many names it has: as many as colons outside of strings. Parsers
 * accept any depth, but writing the value again does not.
 */
export function outlineOf(text: string): { readonly depth: number; readonly names: number } {
  let depth = 0
  let deepest = 0
  let names = 0
  let inString = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (inString) {
      if (code === 0x5c) i++
      else if (code === 0x22) inString = false
    } else if (code === 0x22) inString = true
    else if (code === 0x3a) names++
    else if (code === 0x5b || code === 0x7b) deepest = Math.max(deepest, ++depth)
    else if (code === 0x5d || code === 0x7d) depth--
  }
  return { depth: deepest, names }
}

/** Counts the names in a parsed value. Of a name that the text has twice the parser kept one. */
function namesIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const members: readonly unknown[] = Array.isArray(value) ? value : Object.values(value)
  let names = members === value ? 0 : members.length
  for (const each of members) names += namesIn(each)
  return names
}
