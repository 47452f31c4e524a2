// `sluice flows`, as its users start it: a process of its own on a store that another process has left.
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { FlowExplanation, FlowView } from '../../src/engine/api/flow-views.ts'
import type { FlowInspection } from '../../src/engine/api/flows.ts'
import { machine, workflow } from '../../src/exports/flows.ts'
import { input, limit, NonRetryable, silentLogger, Sluice } from '../../src/exports/index.ts'
import { folder, sluice, start } from './terminal.ts'

interface Kept {
  readonly url: string
  readonly open: () => Promise<Sluice>
  readonly ids: Readonly<Record<'first' | 'second' | 'parent' | 'asking' | 'failed', string>>
}

/** A store with flows that wait for a budget, a child and a signal, and one that failed. Its engine has ended. */
async function storeWithFlows(): Promise<Kept> {
  const url = `sqlite:${join(folder(), 'flows.db')}`
  const hourly = limit('hourly', { rate: 1, per: '1h', burst: 1 })
  const pay = workflow('pay', input<string>(), {
    key: (name) => name,
    run: (name, flow) => flow.step('charge', { limits: [hourly] }, () => name),
  })
  const parent = workflow('parent', input<string>(), {
    async run(name, flow) {
      await flow.step('begin', () => name)
      return flow.child('part', pay, name)
    },
  })
  const ask = machine('ask', {
    states: { wait: input<null>(), end: input<null>() },
    signals: { approved: input<{ by: string }>() },
    first: 'wait',
    result: input<string>(),
    run: {
      wait: (state, to) => to.wait(['approved'], 'end', state, { within: '1d' }),
      end: (_, to) => to.done(to.signals[0]?.payload.by ?? 'nobody'),
    },
  })
  const fail = workflow('fail', input<null>(), {
    run: async (_, flow) => {
      await flow.step('one', () => 1)
      await flow.step('two', { retry: { attempts: 1 } }, () => {
        throw new NonRetryable('it is broken')
      })
    },
  })
  const workflows = [pay, parent, ask, fail]
  const open = async (): Promise<Sluice> => {
    const engine = new Sluice({ store: url, tasks: [], workflows, durability: 'process', logger: silentLogger })
    await engine.start()
    return engine
  }
  const engine = await open()
  const paid = await pay.start('paid')
  await paid.result()
  const first = await pay.start('first')
  const second = await pay.start('second')
  const waiting = await parent.start('third')
  const asking = await ask.start(null)
  const failed = await fail.start(null)
  await failed.result().catch(() => undefined)
  const isAt = async (id: string, state: string): Promise<boolean> =>
    (await engine.flows.inspect(id))?.steps.at(-1)?.state === state
  for (const [id, state] of [
    [first.id, 'waiting'],
    [second.id, 'waiting'],
    [waiting.id, 'awaiting'],
    [asking.id, 'awaiting'],
  ] as const)
    await expect.poll(() => isAt(id, state)).toBe(true)
  await expect.poll(async () => (await engine.limits.inspect('hourly'))[0]?.waiting).toBe(3)
  await engine.stop()
  const ids = { first: first.id, second: second.id, parent: waiting.id, asking: asking.id, failed: failed.id }
  return { url, open, ids }
}

async function json<T>(...args: string[]): Promise<T> {
  const { code, out, err } = await sluice(['flows', ...args, '--json'])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return JSON.parse(out) as T
}

describe('sluice flows', () => {
  it('lists flows by workflow, state and key, page by page', async () => {
    const { url, ids } = await storeWithFlows()
    const all = await sluice(['flows', 'list', '--store', url])
    expect(all).toMatchObject({ code: 0, err: '' })
    expect(all.out).toMatch(/^id +kind +name +key +state +started +took$/m)
    expect(all.out).toMatch(new RegExp(`^${ids.failed} +workflow +fail +failed +\\S+.* ago`, 'm'))
    expect(all.out).toMatch(new RegExp(`^${ids.asking} +machine +ask +running `, 'm'))
    const filter = ['list', '--workflow', 'pay', '--state', 'running', '--limit', '2', '--store', url]
    const page = await json<{ flows: FlowView[]; cursor: string }>(...filter)
    expect(page.flows.map(({ key }) => key)).toEqual(['third', 'second'])
    expect((await sluice(['flows', ...filter])).out).toContain(`--cursor ${page.cursor}`)
    const next = await json<{ flows: FlowView[]; cursor: null }>(...filter, '--cursor', page.cursor)
    expect(next).toMatchObject({ flows: [{ id: ids.first, key: 'first', workflow: 'pay' }], cursor: null })
    expect((await sluice(['flows', 'list', '--key', 'none', '--store', url])).out).toBe('No such flows.\n')
  })

  it('shows a flow as a tree, with its waits and the steps of its children, also again every second', async () => {
    const { url, ids } = await storeWithFlows()
    const { out, code } = await sluice(['flows', 'show', ids.parent, '--store', url])
    expect(code).toBe(0)
    const [head, begin, part, charge, ...rest] = out.split('\n')
    expect(rest).toEqual([''])
    expect(head).toMatch(new RegExp(`^parent {2}${ids.parent} {2}running {2}started \\S+ {2}running for `))
    expect(begin).toMatch(/^├─ begin {2}done +took \d+ ms/)
    expect(part).toMatch(/^└─ part {3}awaiting {2}child \S+ of pay, running$/)
    expect(charge).toMatch(
      /^ {3}└─ charge {2}waiting {3}at position 3 for hourly, starts no sooner than \S+ \(in (3 h 0|2 h 59) min\)/,
    )
    const second = await json<FlowInspection>('show', ids.second, '--store', url)
    expect(second).toMatchObject({
      workflow: 'pay',
      steps: [{ name: 'charge', state: 'waiting', wait: { position: 2, waitsOn: { limit: 'hourly', key: null } } }],
    })
    const failed = await sluice(['flows', 'show', ids.failed, '--store', url])
    expect(failed.out).toMatch(/^└─ two {2}failed .*it is broken$/m)
    const watcher = start('flows', 'show', ids.second, '--json', '--watch', '--store', url)
    let seen = ''
    await new Promise<void>((resolve) => {
      watcher.stdout?.on('data', (chunk: Buffer) => {
        seen += chunk.toString()
        if (seen.split('\n').length > 2) resolve()
      })
    })
    watcher.kill('SIGINT')
    expect(JSON.parse(seen.split('\n')[1] ?? '')).toMatchObject({ id: ids.second })
  })

  it('explains what a flow waits for', async () => {
    const { url, ids } = await storeWithFlows()
    const { out } = await sluice(['flows', 'explain', ids.second, '--store', url])
    expect(out).toMatch(/^The step charge waits for the budget of hourly, .* at position 2; it should start no sooner/)
    const found = await json<FlowExplanation>('explain', ids.asking, '--store', url)
    expect(found.words).toMatch(/^The step end waits for the signal approved, until /)
    expect(found.waits).toMatchObject([{ name: 'end', state: 'awaiting', signals: ['approved'] }])
  })

  it('sends a signal, retries and cancels, and an engine goes on from there', async () => {
    const { url, ids, open } = await storeWithFlows()
    const signal = ['signal', ids.asking, 'approved', '{"by":"ann"}', '--once', 'e1', '--store', url]
    const misspelt = signal.with(2, 'aproved')
    expect(await json(...misspelt)).toEqual({ id: ids.asking, signal: 'aproved', duplicate: false })
    expect(await json(...signal)).toEqual({ id: ids.asking, signal: 'approved', duplicate: false })
    expect((await sluice(['flows', ...signal])).out).toBe('It was sent before, and is not sent again.\n')
    expect(await json('retry', ids.failed, '--from', 'one', '--store', url)).toEqual({ id: ids.failed, retried: true })
    expect(await sluice(['flows', 'retry', ids.first, '--store', url])).toEqual({
      code: 1,
      out: `The flow ${ids.first} is running: only a failed flow can be retried.\n`,
      err: '',
    })
    expect(await json('cancel', ids.parent, '--store', url)).toEqual({ id: ids.parent, cancelled: true })
    expect(await sluice(['flows', 'cancel', ids.parent, '--store', url])).toMatchObject({ code: 1 })
    const engine = await open()
    await expect.poll(async () => (await engine.flows.get(ids.asking))?.state).toBe('completed')
    await expect.poll(async () => (await engine.flows.get(ids.failed))?.state).toBe('failed')
    expect(await engine.flows.inspect(ids.asking)).toMatchObject({ result: 'ann' })
    expect(await engine.flows.list({ states: ['cancelled'] })).toHaveLength(2)
    await engine.stop()
  })

  it.each([
    [['show', '019539a4-b68c-7def-8000-1a2b3c4d5e6f'], 1, 'flow.not_found'],
    [['explain', 'x'], 1, 'flow.not_found'],
    [['signal', 'x', 'go'], 1, 'flow.not_found'],
    [['retry', 'x'], 1, 'flow.not_found'],
    [['retry', 'x', '--from', ''], 2, 'cli.usage'],
    [['retry', 'x', '--from', 'x'.repeat(256)], 2, 'cli.usage'],
    [['cancel', 'x'], 1, 'flow.not_found'],
    [['signal', 'x', 'go', '{by'], 2, 'cli.usage'],
    [['signal', 'x', 'go', '[1e400]'], 2, '1e400 cannot be stored exactly'],
    [['list', '--state', 'done'], 2, 'cli.usage'],
    [['list', '--limit', 'x'], 2, 'cli.usage'],
    [['list', '--cursor', 'x'], 2, 'option.invalid'],
    [['list', '--flow', 'x'], 2, 'unknown option'],
    [['show'], 2, 'missing required argument'],
    [['start', 'pay'], 2, 'unknown command'],
  ] as const)('%j ends with %i', async (args, code, words) => {
    const url = `sqlite:${join(folder(), 'empty.db')}`
    const engine = new Sluice({ store: url, tasks: [], queues: { default: {} }, logger: silentLogger })
    await engine.start()
    await engine.stop()
    const found = await sluice(['flows', ...args, '--store', url])
    expect(found).toMatchObject({ code, out: '' })
    expect(found.err).toContain(words)
  })
})
