-- Which remote claim started a job: what it took is given back when its answer was lost.
ALTER TABLE jobs ADD COLUMN claim TEXT;
