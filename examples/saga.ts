// A trip is booked whole or not at all: what was done is undone. Run it with: npx node examples/saga.ts
import { input, limit, NonRetryable, Sluice } from '../src/exports/index.ts'
import { StepFailed, workflow } from '../src/exports/flows.ts'

const airline = limit('airline', { every: '10ms' })
const hotel = limit('hotel', { every: '10ms' })

const trip = workflow('trip', input<{ traveller: string; sold_out: boolean }>(), {
  async run({ traveller, sold_out }, flow) {
    const undo: (() => Promise<unknown>)[] = []
    try {
      const seat = await flow.step('seat', { limits: [airline] }, () => `seat of ${traveller}`)
      undo.push(() => flow.step('free seat', { limits: [airline] }, () => `freed the ${seat}`))
      const room = await flow.step('room', { limits: [hotel], retry: { attempts: 1 } }, () => {
        if (sold_out) throw new NonRetryable('no room is left')
        return `room of ${traveller}`
      })
      return { seat, room, undone: [] as unknown[] }
    } catch (error) {
      if (!(error instanceof StepFailed)) throw error
      const undone: unknown[] = []
      for (const each of undo.toReversed()) undone.push(await each())
      return { seat: null, room: null, undone }
    }
  },
})

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [], workflows: [trip] })
await sluice.start()
const [fine, broken] = await trip.startMany([
  { traveller: 'ann', sold_out: false },
  { traveller: 'bob', sold_out: true },
])
console.log(JSON.stringify(await fine?.result()))
console.log(JSON.stringify(await broken?.result()))
await sluice.stop()
