// The normal form of a graph: the builder and JSON give the same.
import { describe, expect, it } from 'vitest'
import { input, limit, task } from '../../src/exports/index.ts'
import { graphFromJson } from '../../src/flows/graph/from-json.ts'
import { graph } from '../../src/flows/graph/graph.ts'

const openai = limit('openai', { rate: 500, per: '1m' })
const perTenant = limit('by-tenant', { rate: 50, per: '1m', burst: 5 })
const tidy = task('tidy', input<{ files: string[] }>(), { run: () => 1 })

const built = graph('code.review', input<{ pr: number; tenant: string }>(), { onFailure: 'fast', timeout: '1h' })
  .step('diff', () => ({ files: ['a'], at: 1 }))
  .after('diff')
  .step('lint', { onFailure: 'continue' }, () => 1)
  .after('lint', 'diff')
  .step(
    'llm',
    {
      limits: [
        openai,
        { limit: perTenant, by: 'input.tenant', weight: 'input.pr' },
        perTenant.by(() => 'x'),
        openai.key(5),
      ],
      retry: { attempts: 5, initial: '2s' },
      when: { path: 'input.pr', op: 'gt', value: 3 },
      timeout: '1m',
      priority: 3,
      queue: 'slow',
    },
    () => 1,
  )
  .undo('llm', { limits: [openai.weight(2)] }, () => 1)
  .after('diff')
  .each(({ diff }) => diff.files, { atOnce: 4 })
  .step('post', { limits: [{ limit: perTenant, by: 'item' }] }, () => 1)
  .after('diff')
  .call('tidy', tidy, ({ diff }) => ({ files: diff.files }))
  .sleep('cool', '1h')
  .signal('approve', input<{ by: string }>(), { within: '2d' })
  .output(({ llm }) => llm)

const written = `{
  "name": "code.review", "on_failure": "fast", "timeout": "PT60M", "output": { "code": true },
  "steps": {
    "approve": { "signal": "approve", "within": "48h" },
    "cool": { "sleep": "60m" },
    "tidy": { "task": "tidy", "after": ["diff"], "input": { "code": true } },
    "post": { "task": "code.review/post", "after": ["diff"], "each": { "code": true }, "at_once": 4,
              "limits": [{ "by": "item", "limit": "by-tenant" }] },
    "llm": { "code": true, "after": ["diff", "lint"], "timeout": "60s", "priority": 3, "queue": "slow",
             "limits": [{ "limit": "openai" }, { "limit": "by-tenant", "by": "input.tenant", "weight": "input.pr" },
                        { "limit": "by-tenant", "by": { "code": true } }, { "limit": "openai", "key": "5" }],
             "retry": { "attempts": 5, "initial": 2000, "jitter": true },
             "when": { "op": "gt", "path": "input.pr", "value": 3 },
             "undo": { "code": true, "limits": [{ "limit": "openai", "weight": 2 }] } },
    "lint": { "code": true, "after": ["diff"], "on_failure": "continue" },
    "diff": { "code": true, "on_failure": "stop" }
  } }`

describe('the hash of a graph', () => {
  it('is the same for the builder and for JSON by hand, in any order and unit', () => {
    expect(graphFromJson(written).hash).toBe(built.hash)
    expect(built.hash).toMatch(/^[0-9a-f]{64}$/)
  })

  it('is the same for what the builder writes as JSON', () => {
    expect(graphFromJson(JSON.stringify(built)).hash).toBe(built.hash)
  })

  it.each([
    ['an edge', '"after": ["diff", "lint"]', '"after": ["diff"]'],
    ['a weight', '"weight": 2', '"weight": 3'],
    ['a retry', '"attempts": 5', '"attempts": 6'],
    ['what a failure does', '"on_failure": "continue"', '"on_failure": "stop"'],
  ])('differs with %s', (_, from, to) => {
    expect(graphFromJson(written.replace(from, to)).hash).not.toBe(built.hash)
  })
})

describe('a builder with faults', () => {
  it('are thrown by graphFromJson and by the builder, with the list as the cause', () => {
    const thrown = (work: () => unknown): unknown => {
      try {
        return work()
      } catch (error) {
        return error
      }
    }
    expect(thrown(() => graphFromJson('{ "name": "g", "steps": {} }'))).toMatchObject({
      code: 'graph.invalid',
      cause: [{ path: 'steps' }],
    })
    const twice = graph('g', input<void>()).step('a', () => 1) as unknown as {
      step(...args: unknown[]): typeof twice
      output(of: unknown): unknown
    }
    expect(
      thrown(() =>
        twice
          .step('a', () => 2)
          .step('b', { limts: [] }, () => 2)
          .output(() => 1),
      ),
    ).toMatchObject({
      code: 'graph.invalid',
      cause: [
        { path: 'steps.b.limts', code: 'graph.field.unknown' },
        { path: 'steps.a', code: 'graph.name.twice' },
      ],
    })
  })
})
