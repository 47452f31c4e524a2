import { vi } from 'vitest'
import { storeConformance } from '../conformance/store/suite.ts'
import { postgresBackend } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'

// Hundreds of round trips to a server that others use too.
vi.setConfig({ testTimeout: 180_000 })

withPostgres("the store's contract on PostgreSQL", () => storeConformance(postgresBackend('PostgreSQL')))
