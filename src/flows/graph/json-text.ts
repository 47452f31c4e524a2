import { jsonFaults } from '../../base/json-text.ts'
import type { Faults } from './faults.ts'

/** Parses the JSON text of a definition. Undefined: the text is not JSON. */
export function parseDefinition(text: string, faults: Faults): unknown {
  const { brokenAt, repeated } = jsonFaults(text)
  if (brokenAt !== null) {
    faults.add('', 'graph.json.invalid', `The definition is not JSON from ${brokenAt} on.`)
    return undefined
  }
  for (const path of repeated) faults.add(path, 'graph.name.twice', `${path} is there twice. Expected each name once.`)
  return JSON.parse(text)
}
