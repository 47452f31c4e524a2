import { define } from './definition.ts'
import { graphInvalid } from './graph-invalid.ts'
import { hashOf } from './form.ts'
import { readGraph } from './read-graph.ts'
import { useOf } from '../../policy/limits/define.ts'
import type { GraphDefinition } from './types.ts'

/**
 * Reads a graph that is written in JSON. Its steps are tasks by name; a step with `"code": true` waits for a worker
 * that takes tasks named `graph/step`.
 * @param definition JSON text, which also shows names that are there twice, or the value of one
 * @throws {SluiceError} `graph.invalid`, whose cause is the list of all faults as `{ path, code, message }`
 */
export function graphFromJson(definition: string | object): GraphDefinition<unknown, unknown> {
  const { form, faults, limits, shape } = readGraph(definition)
  if (!form) throw graphInvalid(typeof definition === 'object' ? Reflect.get(definition, 'name') : '', faults)
  return define({
    form,
    hash: hashOf(form),
    queue: form.queue ?? 'default',
    isJson: true,
    schema: null,
    shape,
    steps: new Map(),
    key: null,
    hold: [],
    output: null,
    limits: limits.map(useOf),
  })
}
