# Grow the forests of R on the tables of one folder and write what they did back into it.
#
# Enters (from record.py): settings.json, jobs.csv (problem, replication, setting, trees, mtry),
#   and per problem and replication train.csv (x1.., y) and test.csv (x1.., p0, p1..).
# Leaves: results.csv (one row per job), planted.csv (what the stopping parameters mean), versions.csv.
# One thread throughout.

suppressPackageStartupMessages({
  library(randomForest)
  library(ranger)
  library(jsonlite)
})

folder <- commandArgs(trailingOnly = TRUE)[1]
settings <- fromJSON(file.path(folder, "settings.json"), simplifyVector = FALSE)

read_problem <- function(name, replication, categorical) {
  path <- function(part) file.path(folder, sprintf("%s_%d_%s.csv", name, replication, part))
  train <- read.csv(path("train"))
  test <- read.csv(path("test"))
  x_names <- grep("^x", names(train), value = TRUE)
  x <- train[x_names]
  x_test <- test[x_names]
  for (column in categorical) {
    levels <- sort(unique(c(x[[column]], x_test[[column]])))
    x[[column]] <- factor(x[[column]], levels = levels)
    x_test[[column]] <- factor(x_test[[column]], levels = levels)
  }
  list(x = x, y = train$y, x_test = x_test, p_test = as.matrix(test[grep("^p", names(test))]))
}

# randomForest's regression splits pure nodes of more than nodesize draws too: where rounding leaves
# a gain just above zero, or, on an exact tie at zero, at a cut of 0 whether or not that lies within
# the node. The comparable count takes every node whose in-bag mean is 0 or 1 as a leaf.
joined_node_count <- function(left, right, status, prediction) {
  pure <- abs(prediction) < 1e-9 | abs(prediction - 1) < 1e-9
  size <- rep(1, length(status))
  for (node in rev(seq_along(status))) {  # daughters come after their parent
    if (status[node] == -3 && !pure[node]) size[node] <- 1 + size[left[node]] + size[right[node]]
  }
  size[1]
}

joined_node_counts <- function(forest) {
  sapply(seq_len(forest$ntree), function(tree) {
    nodes <- seq_len(forest$ndbigtree[tree])
    joined_node_count(forest$leftDaughter[nodes, tree], forest$rightDaughter[nodes, tree],
                      forest$nodestatus[nodes, tree], forest$nodepred[nodes, tree])
  })
}

two_columns <- function(p) cbind(1 - p, p)

# Each grower returns node counts, out-of-bag shares and test shares (columns in order of class).
grow_randomforest_class <- function(data, setting, trees, mtry) {
  y <- factor(data$y)
  fit <- randomForest(data$x, y, ntree = trees, mtry = mtry, nodesize = setting$node_size)
  counts <- fit$forest$ndbigtree
  list(nodes = mean(counts), raw_nodes = mean(counts), oob = fit$votes,
       test = predict(fit, data$x_test, type = "prob"))
}

grow_randomforest_regression <- function(data, setting, trees, mtry) {
  fit <- suppressWarnings(  # it warns that the response has few values
    randomForest(data$x, data$y, ntree = trees, mtry = mtry, nodesize = setting$node_size))
  list(nodes = mean(joined_node_counts(fit$forest)), raw_nodes = mean(fit$forest$ndbigtree),
       oob = two_columns(fit$predicted), test = two_columns(predict(fit, data$x_test)))
}

grow_ranger_probability <- function(data, setting, trees, mtry) {
  y <- factor(data$y)
  arguments <- list(x = data$x, y = y, probability = TRUE, num.trees = trees, mtry = mtry,
                    min.node.size = setting$node_size, num.threads = 1,
                    respect.unordered.factors = "partition",
                    seed = sample.int(.Machine$integer.max, 1))
  fit <- do.call(ranger, c(arguments, setting$extra))
  counts <- sapply(fit$forest$split.varIDs, length)
  list(nodes = mean(counts), raw_nodes = mean(counts), oob = fit$predictions[, levels(y)],
       test = predict(fit, data$x_test, num.threads = 1)$predictions[, levels(y)])
}

growers <- list(randomForest_class = grow_randomforest_class,
                randomForest_regression = grow_randomforest_regression,
                ranger_probability = grow_ranger_probability)

# A tie goes to the first class, as in numpy's argmax (randomForest itself draws one).
measure <- function(job) {
  setting <- settings[[job$setting]]
  data <- read_problem(job$problem, job$replication, unlist(strsplit(job$categorical, " ")))
  set.seed(1000 + job$replication)
  grown <- growers[[paste(setting$package, setting$kind, sep = "_")]](data, setting, job$trees, job$mtry)
  said <- max.col(grown$oob, ties.method = "first") - 1
  data.frame(problem = job$problem, setting = job$setting, replication = job$replication, mtry = job$mtry,
             nodes = grown$nodes, raw_nodes = grown$raw_nodes, oob_error = mean(said != data$y),
             rmse = sqrt(mean((grown$test - data$p_test)^2)))
}

# ---- what nodesize and min.node.size mean, on planted data ----

# Labels alternate along one feature, so the best cut takes one end row off: a root of 40 rows that
# is split leaves 39 rows, then 38. No resampling. Total nodes at limits 38, 39, 40, 41.
alternating <- data.frame(x = as.numeric(1:40))
alternating_y <- rep(0:1, 20)

nodes_at_limit <- function(kind, limit) {
  if (kind == "ranger_probability") {
    fit <- ranger(x = alternating, y = factor(alternating_y), probability = TRUE, num.trees = 1,
                  replace = FALSE, sample.fraction = 1, min.node.size = limit, num.threads = 1)
    return(length(fit$forest$split.varIDs[[1]]))
  }
  y <- if (kind == "randomForest_class") factor(alternating_y) else alternating_y
  suppressWarnings(randomForest(alternating, y, ntree = 1, replace = FALSE, sampsize = 40,
                                nodesize = limit))$forest$ndbigtree
}

# Bootstrap, limit 10, labels that are coin flips: the largest impure leaf, counted in draws and in
# distinct rows, tells which of the two the limit bounds.
largest_impure_leaf <- function(kind) {
  set.seed(1)
  x <- as.data.frame(matrix(runif(500), 250))
  y <- rbinom(250, 1, 0.5)
  if (kind == "ranger_probability") {
    fit <- ranger(x = x, y = factor(y), probability = TRUE, num.trees = 200, min.node.size = 10,
                  keep.inbag = TRUE, num.threads = 1, seed = 1)
    leaf <- predict(fit, x, type = "terminalNodes", num.threads = 1)$predictions
    draws <- do.call(cbind, fit$inbag.counts)
  } else {
    label <- if (kind == "randomForest_class") factor(y) else y
    fit <- suppressWarnings(randomForest(x, label, ntree = 200, nodesize = 10, keep.inbag = TRUE))
    leaf <- attr(predict(fit, x, nodes = TRUE), "nodes")
    draws <- fit$inbag
  }
  per_tree <- sapply(seq_len(200), function(tree) {
    inside <- draws[, tree] > 0
    w <- draws[inside, tree]
    id <- leaf[inside, tree]
    share <- tapply(w * y[inside], id, sum) / tapply(w, id, sum)
    impure <- share > 0 & share < 1
    c(max(tapply(w, id, sum)[impure]), max(tapply(w, id, length)[impure]))
  })
  apply(per_tree, 1, max)
}

# Coin-flip labels, one telling feature, mtry 1, alone or beside nine constant features: where a
# constant feature uses up the draw, most nodes stay unsplit and the trees are far smaller.
# (randomForest's classification grows a tree again until its root is split.)
mean_nodes_beside_constants <- function(kind, n_constant) {
  set.seed(1)
  y <- rbinom(100, 1, 0.5)
  x <- data.frame(tells = seq_len(100), matrix(0, 100, n_constant))
  if (kind == "ranger_probability") {
    fit <- ranger(x = x, y = factor(y), probability = TRUE, num.trees = 1000, mtry = 1,
                  min.node.size = 1, num.threads = 1, seed = 1)
    return(mean(sapply(fit$forest$split.varIDs, length)))
  }
  label <- if (kind == "randomForest_class") factor(y) else y
  fit <- suppressWarnings(randomForest(x, label, ntree = 1000, mtry = 1, nodesize = 1))
  mean(fit$forest$ndbigtree)
}

plant <- function(kind) {
  leaf <- largest_impure_leaf(kind)
  nodes <- sapply(38:41, function(limit) nodes_at_limit(kind, limit))
  data.frame(kind = kind, nodes_at_38 = nodes[1], nodes_at_39 = nodes[2], nodes_at_40 = nodes[3],
             nodes_at_41 = nodes[4], largest_impure_leaf_draws = leaf[1],
             largest_impure_leaf_distinct = leaf[2],
             nodes_alone = mean_nodes_beside_constants(kind, 0),
             nodes_beside_nine_constants = mean_nodes_beside_constants(kind, 9))
}

save_table <- function(table, name) write.csv(table, file.path(folder, name), row.names = FALSE)

jobs <- read.csv(file.path(folder, "jobs.csv"), colClasses = c(categorical = "character"))
results <- lapply(seq_len(nrow(jobs)), function(i) measure(as.list(jobs[i, ])))
save_table(do.call(rbind, results), "results.csv")
save_table(do.call(rbind, lapply(names(growers), plant)), "planted.csv")
save_table(data.frame(name = c("R", "randomForest", "ranger"),
                      version = c(paste(R.version$major, R.version$minor, sep = "."),
                                  as.character(packageVersion("randomForest")),
                                  as.character(packageVersion("ranger")))), "versions.csv")
