/** Workflows and machines are checked by the compiler. Compiled by `npm run types`; never run. */
import { input, limit, task } from '../../src/exports/index.ts'
import { again, child, machine, type Path, type Startable, workflow } from '../../src/exports/flows.ts'

const mail = limit('mail', { rate: 100, per: '1m' })
const perTeam = limit('mail-by-team', { rate: 10, per: '1m', burst: 2 })
const oneAtOnce = limit('account', { concurrency: 1 })

interface Signup {
  readonly account: string
  readonly team: { readonly id: number; readonly name?: string; readonly tags: readonly string[] }
  readonly invited: Date
  readonly seats: readonly { readonly email: string }[]
}
const invite = task('invite', input<{ email: string }>(), {
  limits: [perTeam.by(({ email }) => email)],
  run: ({ email }) => ({ to: email, at: new Date(), note: undefined as string | undefined }),
})

// taken: a body with every kind of step
const close = workflow('close', input<{ account: string }>(), {
  run: async ({ account }, flow) => {
    await flow.step('close', { limits: [mail] }, () => account.length)
    return { closed: true as const }
  },
})
const signup = workflow('signup', input<Signup>(), {
  signals: { confirmed: input<{ code: string }>(), stopped: input<null>() },
  key: ({ account }) => account,
  hold: [oneAtOnce.by(({ account }) => account), mail],
  defaults: { retry: { attempts: 4 }, timeout: '1m', queue: 'signups', priority: 5 },
  timeout: '30d',
  strict: true,
  run: async ({ account, team, invited, seats }, flow) => {
    const date: number = invited.getTime()
    const id: string = await flow.step('id', ({ key, attempt, signal }) => `${key}${attempt}${String(signal.aborted)}`)
    const made = await flow.step('make', { limits: [perTeam.key(team.id), mail.weight(2)], timeout: '5s' }, () => ({
      at: new Date(date),
      maybe: undefined as number | undefined,
      list: [1, undefined],
    }))
    const at: string = made.at
    const maybe: number | undefined = made.maybe
    const list: (number | null)[] = made.list
    const nothing: undefined = await flow.step('nothing', () => undefined)
    await flow.step('void', async () => {})
    const one = await flow.call('one', invite, { email: id }, { limits: [mail], delay: '1h' })
    const sent: string = one.at
    const all = await flow.map('all', invite, seats, { atOnce: 5 })
    const emails: string[] = all.map(({ to }) => to)
    const collected = await flow.map('try', invite, seats, { onFailure: 'collect' })
    const codes: string[] = collected.flatMap((each) => (each.ok ? [each.value.to] : [each.error.code]))
    const { closed } = await flow.child('close', close, { account }, { priority: 3 })
    const isClosed: true = closed
    const detached: string = (await flow.detach('later', close, { account })).id
    await flow.sleep('pause', '1d')
    await flow.sleepUntil('date', flow.startedAt)
    const code: string = (await flow.signal('confirmed')).code
    const late: string | undefined = (await flow.signal('confirmed', { within: '1d' }))?.code
    const isNew: boolean = await flow.changed('v2')
    if (isNew) return again({ account, team, invited: new Date(0), seats: [] })
    return { at, sent, maybe, list, nothing, emails, codes, isClosed, detached, code, late }
  },
})
const flow = await signup.start({ account: 'a', team: { id: 1, tags: [] }, invited: new Date(0), seats: [] })
const result = await flow.result({ timeout: '1m' })
const resultOf: string = result.at
await signup.signal({ key: 'a' }, 'confirmed', { code: 'x' }, { once: 'e1' })
await signup.signal(flow.id, 'stopped', null)
await signup.startMany([], { key: 'b', onConflict: 'reject', delay: '1h', meta: { by: 'ann' } })

// taken: a machine with every kind of move
const watch = machine('watch', {
  states: { look: input<{ team: string; seen: number }>(), ask: input<{ team: string }>(), told: input<{ n: number }>() },
  signals: { yes: input<{ by: string }>(), no: input<string>() },
  first: 'look',
  result: input<{ count: number }>(),
  key: ({ team }) => team,
  hold: [oneAtOnce.by((state: { team: string }) => state.team), { limit: perTeam, by: 'team', weight: 'seen' }, { limit: mail, by: ({ team }) => team }],
  limits: { look: [mail, perTeam.by((state: { seen: number }) => state.seen), { limit: perTeam, by: 'team', weight: 'seen' }] },
  retry: { attempts: 2 },
  run: {
    look: ({ seen }, to) => {
      if (seen > 5) return to.done({ count: seen })
      if (seen < 0) return to.fail(new Error('negative'))
      if (seen === 1) return to.retry({ delay: '1m' })
      return to.next('ask', { team: to.key }, { limits: [perTeam.by(({ team }) => team)], delay: '1s', queue: 'asks' })
    },
    ask: ({ team }, to) =>
      team === ''
        ? to.join([child(close, { account: team })], 'told', { n: 1 }, { limits: [mail] })
        : to.wait(['yes', 'no'], 'told', { n: 2 }, { within: '1d', priority: 9 }),
    told: ({ n }, to) => {
      for (const each of to.signals) {
        if (each.name === 'yes') return to.done({ count: each.payload.by.length + n })
        const no: string = each.payload
        if (no === '') return to.next('look', { team: no, seen: 0 })
      }
      return to.done({ count: to.children.filter(({ ok }) => ok).length })
    },
  },
})
const count: number = (await (await watch.start({ team: 'a', seen: 0 })).result()).count
const paths: Path<Signup>[] = ['account', 'team.id', 'team.name']
const startables: readonly Startable<never, unknown, never>[] = []
export const used: readonly unknown[] = [resultOf, count, paths, startables]

// refused
export function refused(): void {
  // @ts-expect-error a signal of another workflow
  void signup.signal('id', 'yes', { by: 'ann' })
  // @ts-expect-error the payload of another signal
  void signup.signal('id', 'confirmed', null)
  // @ts-expect-error a start without its input
  void signup.start()
  // @ts-expect-error an input without its fields
  void close.start({})
  // @ts-expect-error an option of a start that does not exist
  void close.start({ account: 'a' }, { unique: 'x' })
  // @ts-expect-error held by a field that the input has not
  workflow('w', input<{ a: string }>(), { hold: [oneAtOnce.by((i) => i.b)], run: async () => 1 })
  // @ts-expect-error held by a path that the first state has not
  machine('m', { states: { a: input<{ a: string }>() }, first: 'a', hold: [{ limit: mail, by: 'b' }], run: { a: (_, to) => to.done() } })
  // @ts-expect-error held by a path that the input has not
  graph('g', input<{ a: string }>(), { hold: [{ limit: mail, by: 'b' }] })
  // @ts-expect-error a number as the key of a flow
  workflow('w', input<{ a: number }>(), { key: ({ a }) => a, run: async () => 1 })
  workflow('w', input<{ email: string }>(), {
    run: async (given, steps) => {
      const made = await steps.step('made', () => ({ at: new Date(0), or: undefined as string | undefined }))
      // @ts-expect-error a date is a text once it was stored
      made.at.getTime()
      // @ts-expect-error a field that may be gone
      made.or.length
      // @ts-expect-error the input of another task
      await steps.call('call', invite, { account: 'x' })
      // @ts-expect-error one input in place of a list
      await steps.map('map', invite, given)
      // @ts-expect-error a limit of a step has no input to read
      await steps.step('limited', { limits: [perTeam.by((i: { a: string }) => i.a)] }, () => 1)
      // @ts-expect-error an option of a step that does not exist
      await steps.step('limited', { limit: mail }, () => 1)
      // @ts-expect-error a signal that the workflow does not declare
      await steps.signal('confirmed')
      // @ts-expect-error the input of another workflow
      await steps.child('child', close, { email: 'x' })
      // @ts-expect-error a failure has no value
      ;(await steps.map('try', invite, [given], { onFailure: 'collect' })).map((each) => each.value)
    },
  })
  // @ts-expect-error again with another input
  workflow('w', input<{ email: string }>(), { run: async () => again({ account: 1 }) })
  const states = { a: input<{ n: number }>(), b: input<{ s: string; list: string[] }>() }
  machine('m', {
    states,
    first: 'a',
    run: {
      // @ts-expect-error the state of another step
      a: ({ n }, to) => to.next('b', { n }),
      // @ts-expect-error a step that does not exist
      b: ({ s }, to) => to.next('c', { s }),
    },
  })
  // @ts-expect-error a step without its code
  machine('m', { states, first: 'a', run: { a: (_, to) => to.done() } })
  // @ts-expect-error a first step that does not exist
  machine('m', { states, first: 'z', run: { a: (_, to) => to.done(), b: (_, to) => to.done() } })
  // @ts-expect-error a step that returns no move
  machine('m', { states, first: 'a', run: { a: () => 1, b: (_, to) => to.done() } })
  // @ts-expect-error a path that ends at a list
  machine('m', { states, first: 'a', limits: { b: [{ limit: mail, by: 'list' }] }, run: { a: (_, to) => to.done(), b: (_, to) => to.done() } })
}
