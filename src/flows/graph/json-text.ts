import { messageOf } from '../../base/thrown.ts'
import { type Faults, within } from './faults.ts'

/**
 * Parses the JSON text of a definition. JSON.parse keeps the last of two fields of one name and says nothing, so the
 * text is read for such names, too. Undefined: the text is not JSON.
 */
export function parseDefinition(text: string, faults: Faults): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    faults.add('', 'graph.json.invalid', `The definition is not JSON: ${messageOf(error)}.`)
    return undefined
  }
  for (const path of repeatedNames(text))
    faults.add(path, 'graph.name.twice', `${path} is there twice. Expected each name once.`)
  return value
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g

interface Frame {
  readonly path: string
  /** Null: a list. */
  readonly names: Set<string> | null
  index: number
  /** The field that is being read. */
  field: string | null
}

/** The paths of names that are repeated in their object. The text is valid JSON. */
function repeatedNames(text: string): string[] {
  const found: string[] = []
  const frames: Frame[] = []
  for (const [token] of text.matchAll(TOKEN)) {
    const top = frames.at(-1)
    if (token === '{' || token === '[')
      frames.push({ path: pathIn(top), names: token === '{' ? new Set() : null, index: 0, field: null })
    else if (token === '}' || token === ']') frames.pop()
    else if (token === ',' && top) {
      top.index++
      top.field = null
    } else if (token.startsWith('"') && top?.names && top.field === null) {
      top.field = JSON.parse(token) as string
      if (top.names.has(top.field)) found.push(pathIn(top))
      top.names.add(top.field)
    }
  }
  return found
}

function pathIn(frame: Frame | undefined): string {
  if (!frame) return ''
  return frame.names ? within(frame.path, frame.field ?? '') : `${frame.path}[${frame.index}]`
}
