// Definitions of graphs in JSON: every fault is told with its path, and the normal form has one hash.
import { describe, expect, it } from 'vitest'
import { hashOf } from '../../src/flows/graph/form.ts'
import { readGraph } from '../../src/flows/graph/read-graph.ts'
import * as fc from '../properties.ts'

const path = fc.constantFrom('input.a', 'input.b.c', 'input.list.0')
const duration = fc.oneof(fc.integer({ min: 0, max: 1e9 }), fc.constantFrom('5s', 'PT1M', '1.5h', '10ms'))
const limits = fc.array(
  fc.oneof(
    fc.record({ limit: fc.constantFrom('a', 'ü'), by: path, weight: fc.oneof(fc.integer({ min: 1, max: 9 }), path) }),
    fc.record({ limit: fc.constantFrom('a', 'b') }),
    fc.record({ limit: fc.constant('a'), key: fc.constantFrom('k', '42') }),
  ),
  { maxLength: 3 },
)
const terms = {
  limits,
  retry: fc.record({ attempts: fc.integer({ min: 1, max: 9 }), initial: duration }, { requiredKeys: [] }),
  priority: fc.integer({ min: -100, max: 100 }),
}
const action = fc.oneof(
  fc.record(
    {
      code: fc.constant(true as const),
      timeout: duration,
      each: path,
      undo: fc.record({ code: fc.constant(true as const), limits }),
      ...terms,
    },
    { requiredKeys: ['code'] },
  ),
  fc.record(
    {
      task: fc.constantFrom('t', 'a.b'),
      input: fc.constantFrom({ $ref: 'input.a' }, [1, { x: { $ref: 'input' } }]),
      ...terms,
    },
    { requiredKeys: ['task'] },
  ),
  fc.record({ sleep: duration }),
  fc.record({ signal: fc.constant('go'), within: duration }, { requiredKeys: ['signal'] }),
)
/** Steps that come after some of those before them. */
const drawn = fc.array(fc.tuple(action, fc.nat()), { minLength: 1, maxLength: 8 }).map((steps) => ({
  name: 'drawn',
  steps: Object.fromEntries(
    steps.map(([each, bits], i) => [
      `s${i}`,
      { ...each, after: steps.flatMap((__, j) => (j < i && (bits >> j) & 1 ? [`s${j}`] : [])) },
    ]),
  ),
}))

describe('the normal form', () => {
  it('stays the same through JSON for any graph that is drawn', () => {
    fc.assert(
      fc.property(drawn, (definition) => {
        const { form, faults } = readGraph(definition)
        expect(faults).toEqual([])
        if (!form) return
        const again = readGraph(JSON.stringify(form))
        expect(again.form).toEqual(form)
        expect(again.form && hashOf(again.form)).toBe(hashOf(form))
      }),
    )
  })
})

describe('the faults of a definition', () => {
  const around = { tasks: ['crawl', 'tidy'], workflows: ['order'], policy: (): null => null }
  const steps = (inner: string, top = ''): string =>
    `{ "name": "g", ${top} "steps": { "a": { "task": "crawl" }, ${inner} } }`
  const limited = (policy: string): string => steps('"b": { "code": true }', `"limits": { "crm": ${policy} },`)

  it.each<[string, string, string, string]>([
    ['a rate of 0', limited('{ "rate": 0, "per": "1s" }'), 'limits.crm.rate', 'policy.invalid'],
    ['a rate below 0', limited('{ "rate": -1, "per": "1s" }'), 'limits.crm.rate', 'policy.invalid'],
    ['a duration of 1x', limited('{ "rate": 1, "per": "1x" }'), 'limits.crm.per', 'policy.invalid'],
    ['a misspelt field', steps('"b": { "code": true, "limts": [] }'), 'steps.b.limts', 'graph.field.unknown'],
    ['a misspelt field of the graph', steps('"b": { "code": true }', '"stepz": {},'), 'stepz', 'graph.field.unknown'],
    [
      'a circle',
      steps('"b": { "code": true, "after": ["c"] }, "c": { "code": true, "after": ["b"] }'),
      'steps.b.after',
      'graph.cycle',
    ],
    [
      'an output that is the name of a step',
      steps('"b": { "code": true }', '"output": "b",'),
      'output',
      'graph.field.invalid',
    ],
    ['a step after itself', steps('"b": { "code": true, "after": ["b"] }'), 'steps.b.after', 'graph.cycle'],
    ['an unknown step', steps('"b": { "code": true, "after": ["z"] }'), 'steps.b.after', 'graph.step.unknown'],
    [
      'a path that is not seen',
      steps('"b": { "task": "tidy", "input": { "x": [{ "$ref": "a.files" }] } }'),
      'steps.b.input.x[0].$ref',
      'graph.path.unknown',
    ],
    [
      'a key that is not seen',
      steps(
        '"b": { "code": true, "limits": [{ "limit": "crm", "by": "imput.x" }] }',
        '"limits": { "crm": { "every": "1s" } },',
      ),
      'steps.b.limits[0].by',
      'graph.path.unknown',
    ],
    [
      'a path that the input has not',
      steps(
        '"b": { "code": true, "when": { "path": "input.tenat", "op": "exists" } }',
        '"input": { "properties": { "tenant": { "type": "string" } } },',
      ),
      'steps.b.when.path',
      'graph.path.unknown',
    ],
    [
      'an item without each',
      steps('"b": { "task": "tidy", "input": { "$ref": "item" } }'),
      'steps.b.input.$ref',
      'graph.path.unknown',
    ],
    ['an unknown task', steps('"b": { "task": "craw" }'), 'steps.b.task', 'task.unknown'],
    ['an unknown child', steps('"b": { "child": "ordr" }'), 'steps.b.child', 'task.unknown'],
    [
      'an unknown limit',
      steps('"b": { "code": true, "limits": [{ "limit": "crm" }] }'),
      'steps.b.limits[0].limit',
      'limit.unknown',
    ],
    [
      'a weight above the burst',
      steps(
        '"b": { "code": true, "limits": [{ "limit": "crm", "weight": 6 }] }',
        '"limits": { "crm": { "rate": 5, "per": "1s" } },',
      ),
      'steps.b.limits[0].weight',
      'limit.weight.above_burst',
    ],
    [
      'a weight of 0',
      steps(
        '"b": { "code": true, "limits": [{ "limit": "crm", "weight": 0 }] }',
        '"limits": { "crm": { "rate": 5, "per": "1s" } },',
      ),
      'steps.b.limits[0].weight',
      'limit.weight.invalid',
    ],
    ['two inputs', steps('"b": { "task": "tidy", "input": 1, "input": 2 }'), 'steps.b.input', 'graph.name.twice'],
    [
      'two values in one',
      steps('"b": { "task": "tidy", "input": { "$ref": "input.a", "x": 1 } }'),
      'steps.b.input',
      'graph.field.invalid',
    ],
    ['two actions', steps('"b": { "task": "tidy", "sleep": "1s" }'), 'steps.b', 'graph.field.invalid'],
    ['no action', steps('"b": { "after": ["a"] }'), 'steps.b', 'graph.field.invalid'],
    ['no steps', '{ "name": "g", "steps": {} }', 'steps', 'graph.empty'],
    ['steps missing', '{ "name": "g" }', 'steps', 'graph.field.invalid'],
    ['a name twice', steps('"b": { "code": true }, "b": { "task": "tidy" }'), 'steps.b', 'graph.name.twice'],
    ['a step named as the input', steps('"input": { "code": true }'), 'steps.input', 'graph.name.twice'],
    ['a name of a step with a dot', steps('"a.b": { "code": true }'), 'steps."a.b"', 'graph.name.invalid'],
    ['no name', '{ "steps": { "a": { "code": true } } }', 'name', 'graph.name.invalid'],
    ['a retry of 0', steps('"b": { "code": true, "retry": { "attempts": 0 } }'), 'steps.b.retry', 'retry.invalid'],
    ['a priority of 101', steps('"b": { "code": true, "priority": 101 }'), 'steps.b.priority', 'priority.invalid'],
    ['an input of a sleep', steps('"b": { "sleep": "1s", "input": 1 }'), 'steps.b.input', 'graph.field.invalid'],
    [
      'a comparison that does not exist',
      steps('"b": { "code": true, "when": { "path": "input.x", "op": "like", "value": 1 } }'),
      'steps.b.when.op',
      'graph.field.invalid',
    ],
    [
      'a comparison with nothing',
      steps('"b": { "code": true, "when": { "path": "input.x", "op": "eq" } }'),
      'steps.b.when.value',
      'graph.field.invalid',
    ],
    [
      'at_once of 0',
      steps('"b": { "code": true, "each": "input.x", "at_once": 0 }'),
      'steps.b.at_once',
      'graph.field.invalid',
    ],
    ['text that is not JSON', '{ "name": ', '', 'graph.json.invalid'],
    ['a list', '[]', '', 'graph.field.invalid'],
  ])('name %s', (_, text, at, code) => {
    const { faults, form } = readGraph(text, around)
    expect(form).toBeNull()
    expect(faults.map((each) => ({ path: each.path, code: each.code }))).toEqual([{ path: at, code }])
    expect(faults[0]?.message).toMatch(/\.$/)
  })

  it('are all answered at once', () => {
    const { faults } = readGraph(
      steps(
        '"b": { "task": "nope", "limts": [], "after": ["z"], "retry": { "attempts": 0 } }',
        '"limits": { "x": { "rate": 0, "per": "1s" }, "y": { "every": "1x" } },',
      ),
      around,
    )
    expect(faults.map((each) => each.path).toSorted()).toEqual(
      ['limits.x.rate', 'limits.y.every', 'steps.b.after', 'steps.b.limts', 'steps.b.retry', 'steps.b.task'].toSorted(),
    )
  })

  it('are none for hostile values of any kind', () => {
    fc.assert(fc.property(fc.anything(), (value) => void readGraph(value).faults.length))
    fc.assert(fc.property(fc.json(), (text) => void readGraph(text).faults.length))
    fc.assert(
      fc.property(
        fc.jsonValue(),
        (value) =>
          void readGraph({
            name: 'g',
            steps: { a: value, b: { code: true, each: value, when: value, undo: value, limits: [value] } },
          }).faults.length,
      ),
    )
  })
})
