// fast-check for this repository: a change is judged by the same values as the one before. `npm run test:long` draws others.
import { configureGlobal } from 'fast-check'
import { LONG } from './sized.ts'

if (!LONG) configureGlobal({ seed: 20_260_101 })

export * from 'fast-check'
