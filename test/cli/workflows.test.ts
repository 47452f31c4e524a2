// `sluice workflows check`, as its users start it.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { folder, sluice } from './terminal.ts'

function file(name: string, content: unknown): string {
  const path = join(folder(), name)
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

const good = {
  name: 'g',
  steps: { a: { task: 'crawl' }, b: { task: 'tidy', after: ['a'], limits: [{ limit: 'crm' }] } },
}

describe('sluice workflows check', () => {
  it('says the hash of a definition without a fault', async () => {
    const path = file('g.json', good)
    const { code, out, err } = await sluice(['workflows', 'check', path])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(/^g: 2 steps, no fault, hash [0-9a-f]{64}\n$/)
    const answer = JSON.parse((await sluice(['workflows', 'check', path, '--json'])).out) as { hash: string }
    expect(answer.hash).toHaveLength(64)
    expect(answer).toEqual({ name: 'g', hash: answer.hash, steps: ['a', 'b'], faults: [] })
  })

  it('ends with 1 and names every fault with its path', async () => {
    const path = file('g.json', '{ "name": "g", "steps": { "a": { "task": "x", "limts": [], "after": ["z"] } } }')
    const { code, out } = await sluice(['workflows', 'check', path])
    expect(code).toBe(1)
    expect(out.split('\n').map((line) => line.split('  ').slice(0, 2))).toEqual([
      ['steps.a.limts', 'graph.field.unknown'],
      ['steps.a.after', 'graph.step.unknown'],
      [''],
    ])
    const asJson = await sluice(['workflows', 'check', path, '--json'])
    expect(asJson.code).toBe(1)
    expect(JSON.parse(asJson.out)).toMatchObject({
      hash: null,
      faults: [{ path: 'steps.a.limts' }, { path: 'steps.a.after' }],
    })
  })

  it('checks tasks, limits and weights against the configuration of a server', async () => {
    const config = file('config.json', { types: { crawl: {} }, limits: { crm: { rate: 5, per: '1s' } } })
    const steps = { ...good.steps, c: { task: 'crawl', limits: [{ limit: 'crm', weight: 6 }, { limit: 'nope' }] } }
    const { code, out } = await sluice([
      'workflows',
      'check',
      file('g.json', { ...good, steps }),
      '--config',
      config,
      '--json',
    ])
    expect(code).toBe(1)
    expect(
      (JSON.parse(out) as { faults: { path: string; code: string }[] }).faults.map(({ path, code: of }) => [path, of]),
    ).toEqual([
      ['steps.b.task', 'task.unknown'],
      ['steps.c.limits[0].weight', 'limit.weight.above_burst'],
      ['steps.c.limits[1].limit', 'limit.unknown'],
    ])
  })

  it('ends with 2 for a file that cannot be read', async () => {
    const missing = await sluice(['workflows', 'check', '/nowhere/g.json'])
    expect(missing.code).toBe(2)
    expect(missing.err).toMatch(/cli\.usage/)
    expect(await sluice(['workflows', 'check', file('g.json', good), '--config', file('c.json', '{')])).toMatchObject({
      code: 2,
    })
  })
})
